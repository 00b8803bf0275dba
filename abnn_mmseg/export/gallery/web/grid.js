/* The grid. */

function thumb(item) {
  const choice = $('thumbs').value;
  if (choice === 'image' && item.image) {
    return url('thumbs/image', item.name, '.jpg');
  }
  const map = mapOf(choice.slice(4));
  if (map) return url(map.thumbs, item.name, '.jpg');
  return url('thumbs/prediction', item.name, '.png');
}

function makeCard(item) {
  const height = Math.round(320 * item.height / item.width);
  item.card = make('a', {
    className: 'card', href: '#' + encodeURIComponent(item.name),
    title: item.name});
  item.picture = make('img', {
    loading: 'lazy', decoding: 'async', width: 320, height, alt: ''});
  item.value = make('span', {className: 'number'});
  item.meter = make('span', {className: 'meter'});
  const name = make('bdi', {textContent: item.name});
  const line = make('div', {}, make('span', {className: 'name'}, name));
  if (item.anomaly > 0) {
    line.append(make('span', {className: 'flag', textContent: '\u25cf',
      title: percent(item.anomaly) + ' of the pixels are anomalies'}));
  }
  line.append(item.value);
  item.card.append(item.picture, item.meter, line);
}

function showGrid() {
  const stat = $('sort-stat').value, score = $('sort-map').value;
  const column = stat === 'name' ? 'mean' : stat;
  const value = item => item.maps[score][column];
  const all = data.images.map(value);
  const low = Math.min(0, ...all), span = Math.max(...all) - low || 1;
  const text = $('filter').value.toLowerCase();
  const sign = state.descending ? -1 : 1;
  state.order = data.images
    .filter(item => item.name.toLowerCase().includes(text))
    .sort((a, b) => sign * (stat === 'name'
      ? a.name.localeCompare(b.name) : value(a) - value(b)));
  for (const item of state.order) {
    if (!item.card) makeCard(item);
    if (item.picture.getAttribute('src') !== thumb(item)) {
      item.picture.src = thumb(item);
    }
    item.value.textContent = digits(value(item));
    item.meter.style.width = 100 * (value(item) - low) / span + '%';
  }
  $('grid').replaceChildren(...state.order.map(item => item.card));
  $('order').textContent = state.descending
    ? '\u2193 highest first' : '\u2191 lowest first';
  const count = state.order.length;
  $('count').textContent = count === all.length
    ? `${count} images` : `${count} of ${all.length} images`;
}
