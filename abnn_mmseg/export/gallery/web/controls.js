/* Controls. */

const toggleMask = () => {
  state.mask = !state.mask;
  $('show-mask').ariaPressed = state.mask;
  drawMask();
};
const toggleBlend = () => { state.blend = !state.blend; showPanels(); };
const ARROWS = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1],
  ArrowDown: [0, 1]};

addEventListener('keydown', event => {
  if (!state.pixels || event.ctrlKey || event.metaKey || event.altKey) return;
  const arrow = ARROWS[event.key];
  if (event.shiftKey && arrow) {
    const {width, height} = state.pixels, pace = Math.ceil(width / 200);
    const {x, y} = state.cursor ?? {x: width >> 1, y: height >> 1};
    moveCursor(x + pace * arrow[0], y + pace * arrow[1]);
  } else if (arrow && arrow[0]) {
    step(arrow[0]);
  } else if (event.key === 'Escape') {
    close();
  } else if (event.key === 'm') {
    toggleMask();
  } else if (event.key === 'b') {
    toggleBlend();
  } else if (/^[1-9]$/.test(event.key)) {
    const layer = layersOf(state.item)[event.key - 1];
    if (layer) toggleLayer(layer.key);
  } else {
    return;
  }
  event.preventDefault();
});

$('back').onclick = close;
$('previous').onclick = () => step(-1);
$('next').onclick = () => step(1);
$('show-mask').onclick = toggleMask;
$('blend').onclick = toggleBlend;
$('opacity').oninput = setOpacity;
$('threshold').oninput = moveThreshold;
$('mask-map').onchange = event => {
  state.score = event.target.value;
  showThreshold();
  drawMask();
};
for (const id of ['sort-map', 'sort-stat', 'thumbs']) {
  $(id).onchange = showGrid;
}
$('filter').oninput = showGrid;
$('order').onclick = () => {
  state.descending = !state.descending;
  showGrid();
};
addEventListener('hashchange', route);
addEventListener('resize', arrange);

function showMetrics() {
  const columns = [...new Set(data.metrics.flatMap(Object.keys))];
  if (!columns.length) return;
  const row = (tag, cells) => make('tr', {},
    ...cells.map(text => make(tag, {textContent: text})));
  $('metrics').append(make('table', {className: 'number'}, row('th', columns),
    ...data.metrics.map(entry => row('td',
      columns.map(column => digits(entry[column]))))));
}

$('title').textContent = data.title;
for (const map of data.maps) {
  $('sort-map').append(make('option', {value: map.name}, map.title));
  $('mask-map').append(make('option', {value: map.name}, map.title));
}
$('thumbs').append(
  ...(data.images.some(item => item.image)
    ? [make('option', {value: 'image'}, 'image')] : []),
  make('option', {value: 'prediction'}, 'prediction'),
  ...data.maps.map(map => make('option', {value: 'map:' + map.name},
    map.title)));
for (const id of ['left-map', 'right-map']) {
  const side = id === 'left-map' ? 0 : 1;
  $(id).append(...data.maps.map(map =>
    make('option', {value: map.name}, map.title)));
  $(id).value = state.pair[side];
  $(id).onchange = event => {
    state.pair[side] = event.target.value;
    setMarks(state.marks);
  };
  $(id).closest('label').hidden = data.maps.length < 2;
}
$('as-marks').onclick = () => setMarks(true);
$('as-map').onclick = () => setMarks(false);
for (const more of document.querySelectorAll('.more')) {
  more.onclick = () => {
    const open = more.ariaExpanded !== 'true';
    more.ariaExpanded = open;
    more.closest('section').classList.toggle('open', open);
    if (state.pixels) arrange();
  };
}
showMetrics();
setMarks(true);
showDifference();
showRegions();
showThreshold();
showGrid();
route();
