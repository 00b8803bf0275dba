'use strict';
const data = JSON.parse(document.getElementById('data').textContent);
const $ = id => document.getElementById(id);
const HIT = [64, 255, 112], MISSED = [255, 43, 214], ALARM = [0, 217, 255];
const HINT = matchMedia('(pointer: coarse)').matches
  ? 'Touch a picture to read its values \u00b7 two fingers zoom, one moves, '
    + 'a double tap resets'
  : 'Move over a picture to read its values \u00b7 \u2190 \u2192 '
    + 'other images \u00b7 wheel zooms, drag moves, double click resets \u00b7 '
    + 'Shift + arrows move the cursor \u00b7 Esc all images';

const state = {
  order: [], descending: true, item: null, pixels: null, cursor: null,
  blend: false, opacity: {side: 100, blend: 60}, mask: true,
  score: data.maps[0].name, zoom: {k: 1, x: 0, y: 0}, last: null,
  thresholds: Object.fromEntries(data.maps.map(m => [m.name, m.threshold])),
  shown: new Set([data.paired ? 'compare' : '', 'image', 'truth', 'prediction',
    ...data.maps.slice(0, 3).map(m => 'map:' + m.name)]),
  top: 'map:' + data.maps[0].name,
  // Left and right of the comparison, where the border is, and what is shown.
  pair: [...data.pair], split: .5, marks: false,
};
const mapOf = name => data.maps.find(map => map.name === name);
const titleOf = name => mapOf(name)?.title ?? name;
// Who made a map: 'base: entropy' is of the base.
const ownerOf = name => /^(.+):/.exec(name)?.[1] ?? 'ABNN';
const colours = data.colours.match(/../g).map(pair => parseInt(pair, 16));
const gradient = 'linear-gradient(90deg,' + [0, 32, 64, 96, 128, 160, 192,
  224, 255].map(i => `rgb(${colours.slice(3 * i, 3 * i + 3)})`) + ')';

function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}
function digits(value) {
  if (typeof value !== 'number') return value ?? '\u2013';
  return String(Number(value.toPrecision(4)));
}
const percent = share => (100 * share).toFixed(share < .0995 ? 1 : 0) + ' %';
const url = (folder, name, suffix) => folder + '/'
  + name.split('/').map(encodeURIComponent).join('/') + suffix;
