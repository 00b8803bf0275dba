/* Uncertain areas of all images, the worst first; a click jumps to one. */

const MOST_REGIONS = 60;

function showRegions() {
  const all = data.images.flatMap(item => (item.regions ?? [])
    .map(region => ({item, region})));
  all.sort((a, b) => b.region.excess - a.region.excess);
  $('regions').hidden = !all.length;
  $('region-count').textContent = all.length;
  $('region-list').replaceChildren(...all.slice(0, MOST_REGIONS).map(
    ({item, region}) => {
      const chip = makeChip(item, region);
      chip.title = `${item.name}: ${region.class}, mean `
        + `${digits(region.mean)}, ${region.area} pixels`;
      chip.onclick = () => jumpTo(item, region.box);
      return chip;
    }));
}

/* Open the image with the region in the middle, at half of the panel. */
function jumpTo(item, [left, top, wide, high]) {
  const k = Math.min(32, Math.max(1, .5 * Math.min(
    item.width / wide, item.height / high)));
  Object.assign(state.zoom, {
    k, x: .5 - k * (left + wide / 2) / item.width,
    y: .5 - k * (top + high / 2) / item.height});
  location.hash = '#' + encodeURIComponent(item.name);
}
