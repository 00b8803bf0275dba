/* The view. */

/* The colours of a map with the values they stand for. */
function makeScale(map) {
  const [low, high] = map.scale, strip = make('i');
  strip.style.background = gradient;
  return make('span', {className: 'scale number'},
    digits(low), strip, digits(high));
}

function makePanel(layer, withMask) {
  const {width, height} = state.pixels;
  if (layer.key === 'compare') {
    return make('figure', {}, make('figcaption', {}, ...duelCaption()),
      makeDuel(state.item, state.pixels, {zoom: state.zoom}));
  }
  const content = make('div', {className: 'content'});
  if (state.item.image) {
    content.append(make('img', {alt: '', draggable: false,
      src: url('images', state.item.name, '.jpg')}));
  }
  if (layer.key !== 'image') {
    const canvas = make('canvas', {className: 'layer'});
    drawLayer(canvas, state.pixels, layer.key);
    content.append(canvas);
  }
  if (withMask) content.append(make('canvas', {className: 'mask'}));
  content.append(make('div', {className: 'cross', hidden: true}));
  const stage = make('div', {className: 'stage'}, content);
  stage.style.aspectRatio = `${width} / ${height}`;
  const caption = make('figcaption', {},
    make('b', {textContent: layer.title, title: layer.meaning ?? ''}));
  if (layer.key.startsWith('map:')) {
    caption.append(
      make('span', {className: 'meaning', textContent: layer.meaning}),
      makeScale(mapOf(layer.key.slice(4))));
  }
  return make('figure', {}, caption, stage);
}

function showPanels() {
  const layers = layersOf(state.item);
  let chosen = layers.filter(layer => state.shown.has(layer.key));
  if (state.blend) chosen = layers.filter(layer => layer.key === state.top);
  if (!chosen.some(layer => layer.key !== 'compare')) {
    chosen.push(layers.find(layer => layer.key === 'prediction'));
  }
  const masked = chosen.find(layer => layer.key !== 'compare');
  $('panels').replaceChildren(
    ...chosen.map(layer => makePanel(layer, layer === masked)));
  $('layers').replaceChildren(...layers.map((layer, i) => make('button', {
    textContent: layer.title, ariaPressed: chosen.includes(layer),
    title: `Show ${layer.title} (${i + 1})`
      + (layer.meaning ? `: ${layer.meaning}` : ''),
    onclick: () => toggleLayer(layer.key)})));
  $('blend').ariaPressed = state.blend;
  $('opacity').value = state.opacity[state.blend ? 'blend' : 'side'];
  setOpacity();
  arrange();
  drawMask();
  applyZoom();
  showValues();
}

function toggleLayer(key) {
  if (state.blend) state.top = key;
  else if (!state.shown.delete(key)) state.shown.add(key);
  showPanels();
}

function setOpacity() {
  const opacity = $('opacity').value;
  state.opacity[state.blend ? 'blend' : 'side'] = opacity;
  for (const canvas of document.querySelectorAll('canvas.layer')) {
    canvas.style.opacity = state.item.image ? opacity / 100 : 1;
  }
}

/* As many columns as make the panels largest without scrolling. */
function arrange() {
  if (!state.pixels) return;
  const box = $('panels'), style = getComputedStyle(box), gap = 12;
  const room = box.clientWidth - parseFloat(style.paddingLeft) * 2;
  const tall = innerHeight - box.offsetTop - 70;
  const ratio = state.pixels.width / state.pixels.height;
  const count = box.children.length;
  let best = {size: 0, columns: 1};
  for (let columns = 1; columns <= count; columns++) {
    const rows = Math.ceil(count / columns);
    const size = Math.min((room - gap * (columns - 1)) / columns,
      ((tall - gap * (rows - 1)) / rows - 42) * ratio);
    if (size > best.size) best = {size, columns};
  }
  if (innerWidth <= 700) best = {size: room, columns: 1};
  best.size = Math.max(best.size, Math.min(room, 240));
  box.style.gridTemplateColumns =
    `repeat(${best.columns}, ${Math.floor(best.size)}px)`;
}

async function open(item) {
  state.item = item;
  $('name').textContent = item.name;
  const index = state.order.indexOf(item);
  $('place').textContent = `${index + 1} / ${state.order.length}`;
  finds.top ??= scrollY;
  $('grid-page').hidden = true;
  $('view-page').hidden = false;
  scrollTo(0, 0);
  try {
    const pixels = await load(item);
    if (state.item !== item) return;
    state.pixels = pixels;
  } catch (error) {
    $('panels').textContent = error.message;
    return;
  }
  showPanels();
  showLegend();
  for (const near of [index + 1, index - 1]) {
    if (state.order[near]) load(state.order[near]).catch(() => {});
  }
}

function step(by) {
  const count = state.order.length;
  const index = state.order.indexOf(state.item);
  const item = state.order[(index + by + count) % count];
  if (item) location.replace('#' + encodeURIComponent(item.name));
}

function route() {
  const hash = location.hash.slice(1);
  const item = data.images.find(
    other => encodeURIComponent(other.name) === hash);
  if (item) {
    open(item);
    return;
  }
  const last = state.item;
  state.item = state.pixels = null;
  $('view-page').hidden = true;
  $('grid-page').hidden = false;
  showLegend();
  scrollTo(0, finds.top ?? 0);
  finds.top = null;
  if (last?.card) {
    last.card.focus({preventScroll: true});
    last.card.scrollIntoView({block: 'nearest'});
  }
}
const close = () => { location.hash = ''; };

function showThreshold() {
  const [low, high] = mapOf(state.score).range;
  $('mask-map').value = state.score;
  $('threshold').value =
    1000 * (state.thresholds[state.score] - low) / (high - low);
}

function moveThreshold() {
  const [low, high] = mapOf(state.score).range;
  state.thresholds[state.score] =
    low + (high - low) * $('threshold').value / 1000;
  requestAnimationFrame(() => { if (state.pixels) drawMask(); });
}

function showLegend() {
  const present = new Set();
  if (state.pixels) {
    for (const plane of [state.pixels.prediction, state.pixels.truth]) {
      if (plane) for (const id of plane) present.add(id);
    }
  }
  $(state.pixels ? 'view-page' : 'head').append($('legend'));
  $('legend').replaceChildren(...data.classes.map((name, id) => {
    const swatch = make('i');
    swatch.style.background = `rgb(${data.palette[id] ?? [0, 0, 0]})`;
    return make('span', {
      className: state.pixels && !present.has(id) ? 'absent' : '',
      title: `class ${id}`}, swatch, name);
  }));
}
