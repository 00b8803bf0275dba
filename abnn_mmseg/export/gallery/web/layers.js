/* Layers: each is painted pixel by pixel onto a canvas over the image. */

function layersOf(item) {
  const layers = [];
  if (item.image) layers.push({key: 'image', title: 'Image'});
  if (item.truth || item.anomaly !== undefined) {
    layers.push({key: 'truth', title: 'Ground truth'});
  }
  layers.push({key: 'prediction', title: 'Prediction'});
  if (data.maps.length > 1) {
    layers.unshift({key: 'compare', title: 'Compare'});
  }
  for (const map of data.maps) {
    layers.push({key: 'map:' + map.name, title: map.title,
      meaning: map.meaning});
  }
  for (const [risk, promise] of Object.entries(data.guarantees ?? {})) {
    layers.push({key: 'guaranteed:' + risk, meaning: promise,
      title: isAlarm(risk) ? `Alarm (${risk})` : `Set size (${risk})`});
  }
  return layers;
}

const isAlarm = risk => risk === 'false-alarm' || risk === 'miss';

/* The classes of a pixel's set. */
function setAt(pixels, risk, at) {
  const bits = pixels.guaranteed[risk], plane = pixels.width * pixels.height;
  const ids = [];
  for (let id = 0; (id >> 3) * plane < bits.length; id++) {
    if (bits[(id >> 3) * plane + at] >> (id & 7) & 1) ids.push(id);
  }
  return ids;
}

function draw(canvas, {width, height}, colourAt) {
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext('2d');
  const picture = context.createImageData(width, height);
  const words = new Uint32Array(picture.data.buffer);
  for (let i = 0; i < words.length; i++) words[i] = colourAt(i);
  context.putImageData(picture, 0, 0);
}
// Canvas memory is red, green, blue, alpha: on little-endian machines, which
// all that run a browser are, alpha is the high byte of a word.
const word = ([red, green, blue], alpha = 255) =>
  (alpha << 24 | blue << 16 | green << 8 | red) >>> 0;
const classWords = data.palette.map(colour => word(colour));
const heatWords = Array.from({length: 256},
  (_, i) => word(colours.slice(3 * i, 3 * i + 3)));
const anomalyWord = word(MISSED), voidWord = word([24, 26, 30]);

function drawLayer(canvas, pixels, key) {
  const {prediction, truth, anomaly, maps} = pixels;
  if (key === 'prediction') {
    draw(canvas, pixels, i => classWords[prediction[i]] ?? voidWord);
  } else if (key === 'truth') {
    const plain = word([120, 126, 136]);
    draw(canvas, pixels, i => anomaly && anomaly[i] === 1 ? anomalyWord
      : truth ? classWords[truth[i]] ?? voidWord
        : anomaly[i] ? voidWord : plain);
  } else if (key.startsWith('map:')) {
    const values = maps[key.slice(4)];
    const [low, high] = mapOf(key.slice(4)).scale;
    const factor = 255 / (high - low);
    draw(canvas, pixels, i => heatWords[
      Math.max(0, Math.min(255, (values[i] - low) * factor | 0))]);
  } else if (key.startsWith('guaranteed:')) {
    const risk = key.slice(11), most = Math.max(1, data.classes.length);
    const alarm = word(ALARM);
    draw(canvas, pixels, i => {
      const size = setAt(pixels, risk, i).length;
      if (isAlarm(risk)) return size ? alarm : voidWord;
      return heatWords[Math.min(255, 255 * size / most | 0)];
    });
  }
}

/* Green: anomalous and marked; magenta: anomalous, not marked; cyan: marked
   though usual. Returns how many pixels of each there are. */
function drawMarks(canvas, pixels, name, threshold) {
  const {maps, anomaly} = pixels, values = maps[name];
  const [hit, alarm, missed] = [HIT, ALARM, MISSED].map(c => word(c, 170));
  const count = {above: 0, hits: 0, odd: 0, valid: values.length};
  draw(canvas, pixels, i => {
    const positive = values[i] >= threshold;
    count.above += positive;
    if (!anomaly) return positive ? alarm : 0;
    if (anomaly[i] === 255) {
      count.above -= positive;
      count.valid--;
      return 0;
    }
    count.odd += anomaly[i];
    count.hits += positive & anomaly[i];
    return positive ? anomaly[i] ? hit : alarm : anomaly[i] ? missed : 0;
  });
  return count;
}

const key = (colour, text) => make('span', {className: 'key'}, Object.assign(
  make('i'), {style: `background: rgb(${colour})`}), text);

function drawMask() {
  const threshold = state.thresholds[state.score];
  const canvas = document.querySelector('canvas.mask');
  const {above, hits, odd, valid} =
    drawMarks(canvas, state.pixels, state.score, threshold);
  canvas.hidden = !state.mask;
  $('threshold-value').textContent = digits(threshold);
  const keys = [];
  if (!state.pixels.anomaly) {
    keys.push(key(ALARM, `${percent(above / valid)} of the pixels`));
  } else {
    if (odd) {
      keys.push(key(HIT, `found ${percent(hits / odd)}`),
        key(MISSED, `missed ${percent(1 - hits / odd)} of the anomaly`));
    }
    const usual = Math.max(1, valid - odd);
    keys.push(key(ALARM,
      `false alarms ${percent((above - hits) / usual)} of the rest`));
  }
  $('mask-share').replaceChildren(...keys.flatMap(item => [item, ' \u2002 ']));
  drawDuels();
}
