/* The cursor: one place in all panels, and the numbers there. */

const className = id => data.classes[id] ?? (id === 255 ? 'void' : `${id}`);

function showValues() {
  const {cursor, pixels, item} = state;
  for (const cross of document.querySelectorAll('.cross')) {
    cross.hidden = !cursor;
    if (!cursor) continue;
    cross.style.left = 100 * (cursor.x + .5) / pixels.width + '%';
    cross.style.top = 100 * (cursor.y + .5) / pixels.height + '%';
  }
  if (!cursor) {
    $('readout').replaceChildren(make('span', {className: 'dim'}, HINT));
    return;
  }
  const at = cursor.y * pixels.width + cursor.x;
  const ratio = item.width / pixels.width;
  const rows = [['x, y', `${Math.floor((cursor.x + .5) * ratio)}, `
    + Math.floor((cursor.y + .5) * ratio)],
  ['prediction', className(pixels.prediction[at])]];
  if (pixels.truth || pixels.anomaly) {
    const odd = pixels.anomaly && pixels.anomaly[at] === 1;
    const id = pixels.truth ? pixels.truth[at] : pixels.anomaly[at];
    rows.push(['ground truth', odd ? 'anomaly'
      : pixels.truth || id ? className(id) : 'usual']);
  }
  for (const map of data.maps) {
    rows.push([map.title, digits(pixels.maps[map.name][at])]);
  }
  for (const risk of Object.keys(pixels.guaranteed)) {
    const ids = setAt(pixels, risk, at);
    rows.push([risk, isAlarm(risk) ? ids.length ? 'alarm' : 'no alarm'
      : ids.map(className).join(', ') || 'no class']);
  }
  $('readout').replaceChildren(...rows.map(([name, value]) => make('span', {},
    make('span', {className: 'dim'}, name + ' '), make('b', {}, value))));
}

function moveCursor(x, y) {
  const {width, height} = state.pixels;
  state.cursor = {x: Math.max(0, Math.min(width - 1, x)),
    y: Math.max(0, Math.min(height - 1, y))};
  showValues();
}
