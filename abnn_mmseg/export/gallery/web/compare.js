/* Two maps of one image, left and right of a border that one drags. */

const duels = new Set();

function makeDuel(item, pixels, options = {}) {
  const content = make('div', {className: 'content'});
  if (item.image) {
    content.append(make('img', {alt: '', draggable: false,
      src: url('images', item.name, '.jpg')}));
  }
  const sides = ['left', 'right'].map(side =>
    make('canvas', {className: 'side ' + side}));
  content.append(...sides);
  if (options.box) content.append(makeBox(item, options.box));
  else content.append(make('div', {className: 'cross', hidden: true}));
  const tags = ['left', 'right'].map(side =>
    make('span', {className: 'tag ' + side}));
  const handle = make('div', {className: 'handle', role: 'slider',
    tabIndex: 0, ariaLabel: 'Border between the two maps', ariaValueMin: 0,
    ariaValueMax: 100, title: 'Drag to compare'});
  const stage = make('div', {className: 'stage duel'}, content, ...tags,
    handle);
  stage.style.aspectRatio = `${pixels.width} / ${pixels.height}`;
  const duel = {stage, sides, tags, handle, item, pixels,
    zoom: options.zoom ?? {k: 1, x: 0, y: 0},
    thresholds: options.thresholds};
  dragSplit(duel, options.everywhere ? stage : handle);
  duels.add(duel);
  drawDuel(duel);
  return stage;
}

/* By who made them; by what they are, if the same model made both. */
function sideTitles() {
  const owners = state.pair.map(ownerOf);
  return owners[0] === owners[1] ? state.pair.map(titleOf) : owners;
}

function makeBox(item, [left, top, wide, high]) {
  const box = make('div', {className: 'box'}), margin = 4;
  const place = {left: (left - margin) / item.width,
    top: (top - margin) / item.height,
    width: (wide + 2 * margin) / item.width,
    height: (high + 2 * margin) / item.height};
  for (const [name, share] of Object.entries(place)) {
    box.style[name] = 100 * share + '%';
  }
  return box;
}

function drawDuel(duel) {
  const {pixels, stage} = duel;
  duel.sides.forEach((canvas, i) => {
    const name = state.pair[i];
    if (state.marks) {
      drawMarks(canvas, pixels, name,
        duel.thresholds?.[i] ?? state.thresholds[name]);
    } else {
      drawLayer(canvas, pixels, 'map:' + name);
    }
    duel.tags[i].textContent = sideTitles()[i];
  });
  stage.classList.toggle('marks', state.marks);
  moveSplit(duel);
}

function drawDuels() {
  for (const duel of duels) {
    if (duel.stage.isConnected) drawDuel(duel);
    else duels.delete(duel);
  }
}

/* The border keeps its place on the screen whatever the zoom is. */
function moveSplit({stage, sides, handle, zoom}) {
  const at = (state.split - zoom.x) / zoom.k, border = 100 * at;
  sides[0].style.clipPath = `inset(0 ${100 - border}% 0 0)`;
  sides[1].style.clipPath = `inset(0 0 0 ${border}%)`;
  handle.style.left = 100 * state.split + '%';
  handle.ariaValueNow = Math.round(100 * state.split);
  stage.style.setProperty('--split', 100 * state.split + '%');
}

function setSplit(share) {
  state.split = Math.max(0, Math.min(1, share));
  for (const duel of duels) moveSplit(duel);
}

function dragSplit(duel, grip) {
  const {stage, handle} = duel;
  const follow = event => {
    const box = stage.getBoundingClientRect();
    setSplit((event.clientX - box.left) / box.width);
    event.stopPropagation();
  };
  grip.addEventListener('pointerdown', event => {
    grip.setPointerCapture(event.pointerId);
    follow(event);
  });
  grip.addEventListener('pointermove', event => {
    if (grip.hasPointerCapture(event.pointerId)) follow(event);
  });
  handle.addEventListener('keydown', event => {
    const by = {ArrowLeft: -.05, ArrowRight: .05}[event.key];
    if (!by) return;
    setSplit(state.split + by);
    event.preventDefault();
    event.stopPropagation();
  });
}
