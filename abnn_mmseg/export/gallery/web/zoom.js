/* Zoom: the same part of the picture in all panels. */

function applyZoom() {
  const {zoom} = state, room = 1 - zoom.k;
  zoom.x = Math.min(0, Math.max(room, zoom.x));
  zoom.y = Math.min(0, Math.max(room, zoom.y));
  for (const content of document.querySelectorAll('#panels .content')) {
    content.style.transform = `translate(${100 * zoom.x}%, ${100 * zoom.y}%) `
      + `scale(${zoom.k})`;
    content.style.imageRendering = zoom.k > 4 ? 'pixelated' : '';
  }
  for (const cross of document.querySelectorAll('.cross')) {
    cross.style.transform = `scale(${1 / zoom.k})`;
  }
  // An enlarged picture takes the finger that otherwise scrolls the page.
  $('panels').classList.toggle('enlarged', zoom.k > 1);
  for (const duel of duels) moveSplit(duel);
}

$('panels').addEventListener('wheel', event => {
  const stage = event.target.closest('.stage');
  if (!stage) return;
  event.preventDefault();
  const box = stage.getBoundingClientRect(), {zoom} = state;
  const x = (event.clientX - box.left) / box.width;
  const y = (event.clientY - box.top) / box.height;
  zoomAround(x, y, zoom.k * Math.exp(-event.deltaY / 300));
}, {passive: false});
$('panels').addEventListener('dblclick', () => {
  Object.assign(state.zoom, {k: 1, x: 0, y: 0});
  applyZoom();
});

/* Fingers: one moves an enlarged picture, two zoom; a mouse drags. */
const fingers = new Map();

function zoomAround(x, y, k) {
  const {zoom} = state;
  k = Math.min(32, Math.max(1, k));
  zoom.x = x - (x - zoom.x) * k / zoom.k;
  zoom.y = y - (y - zoom.y) * k / zoom.k;
  zoom.k = k;
  applyZoom();
}

function spread(stage) {
  const [first, second] = [...fingers.values()], box =
    stage.getBoundingClientRect();
  return {distance: Math.hypot(first.x - second.x, first.y - second.y) || 1,
    x: ((first.x + second.x) / 2 - box.left) / box.width,
    y: ((first.y + second.y) / 2 - box.top) / box.height};
}

function pinch(stage, event) {
  const before = spread(stage);
  fingers.set(event.pointerId, {x: event.clientX, y: event.clientY});
  const after = spread(stage);
  state.zoom.x += after.x - before.x;
  state.zoom.y += after.y - before.y;
  zoomAround(after.x, after.y,
    state.zoom.k * after.distance / before.distance);
}

function drag(stage, event) {
  const last = fingers.get(event.pointerId);
  state.zoom.x += (event.clientX - last.x) / stage.clientWidth;
  state.zoom.y += (event.clientY - last.y) / stage.clientHeight;
  fingers.set(event.pointerId, {x: event.clientX, y: event.clientY});
  applyZoom();
}

$('panels').addEventListener('pointerdown', event => {
  if (!event.target.closest('.stage')) return;
  fingers.set(event.pointerId, {x: event.clientX, y: event.clientY});
});
for (const end of ['pointerup', 'pointercancel']) {
  addEventListener(end, event => fingers.delete(event.pointerId));
}
$('panels').addEventListener('pointermove', event => {
  const stage = event.target.closest('.stage');
  if (!stage || !state.pixels) return;
  if (fingers.has(event.pointerId)) {
    if (fingers.size === 2) pinch(stage, event);
    else drag(stage, event);
  }
  const box = stage.firstChild.getBoundingClientRect();
  moveCursor(
    Math.floor((event.clientX - box.left) / box.width * state.pixels.width),
    Math.floor((event.clientY - box.top) / box.height * state.pixels.height));
});
$('panels').addEventListener('pointerleave', () => {
  state.cursor = null;
  if (state.pixels) showValues();
});
