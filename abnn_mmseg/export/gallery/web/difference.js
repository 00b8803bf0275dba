/* The first thing one sees: objects that one map finds and the other not. */

const GROUPS = [
  ['gained', ([base, ours]) => ours && !base],
  ['lost', ([base, ours]) => base && !ours],
  ['both', ([base, ours]) => base && ours],
  ['neither', ([base, ours]) => !base && !ours]];
const finds = {group: null, chosen: null};

function groupTitles() {
  const [base, ours] = data.difference.maps.map(ownerOf);
  return {gained: `Only ${ours} found`, lost: `Only ${base} found`,
    both: 'Both found', neither: 'Both missed'};
}

/* How much farther above its threshold an object is in the second map. */
function gain(thing) {
  const [base, ours] = data.difference.maps.map(
    (name, i) => thing.medians[name] / (data.difference.thresholds[i] || 1));
  return ours - base;
}

function allObjects() {
  return data.images.flatMap(item => (item.objects ?? [])
    .filter(thing => thing.found).map(thing => ({item, thing})));
}

function showDifference() {
  $('difference').hidden = !data.difference;
  if (!data.difference) return;
  $('sentence').textContent = data.difference.text;
  const titles = groupTitles(), all = allObjects();
  $('groups').replaceChildren();
  for (const [name, belongs] of GROUPS) {
    const members = all.filter(({thing}) => belongs(thing.found))
      .sort((a, b) => gain(b.thing) - gain(a.thing));
    if (name === 'lost') members.reverse();
    const button = make('button', {
      textContent: `${titles[name]}: ${members.length}`, disabled:
      !members.length, onclick: () => showGroup(button, members)});
    button.dataset.group = name;
    $('groups').append(button);
    if (members.length && !finds.group) showGroup(button, members);
  }
}

function showGroup(button, members) {
  finds.group = button;
  for (const other of $('groups').children) {
    other.ariaPressed = other === button;
  }
  const chips = members.slice(0, 60).map(({item, thing}) => {
    const chip = makeChip(item, thing);
    chip.onclick = () => showFind(chip, item, thing);
    return chip;
  });
  $('objects').replaceChildren(...chips);
  chips[0].click();
}

/* A square piece of the image around an object. */
function makeChip(item, {box: [left, top, wide, high]}) {
  const side = Math.min(item.width, item.height,
    Math.max(wide, high) * 1.5 + 8);
  const x = Math.max(0, Math.min(item.width - side, left + (wide - side) / 2));
  const y = Math.max(0, Math.min(item.height - side, top + (high - side) / 2));
  const chip = make('button', {className: 'chip', title: item.name,
    ariaLabel: `Object in ${item.name}`});
  if (item.image) {
    const part = (start, all) => all > side ? 100 * start / (all - side) : 0;
    chip.style.backgroundImage = `url("${url('images', item.name, '.jpg')}")`;
    chip.style.backgroundSize = `${100 * item.width / side}% `
      + `${100 * item.height / side}%`;
    chip.style.backgroundPosition =
      `${part(x, item.width)}% ${part(y, item.height)}%`;
  }
  return chip;
}

async function showFind(chip, item, thing) {
  finds.chosen = {chip, item, thing};
  for (const other of $('objects').children) {
    other.ariaPressed = other === chip;
  }
  const pixels = await load(item);
  if (finds.chosen.chip !== chip) return;
  const image = make('div', {className: 'stage'},
    make('div', {className: 'content'}, ...(item.image ? [make('img', {
      alt: item.name, src: url('images', item.name, '.jpg')})] : []),
    makeBox(item, thing.box)));
  image.style.aspectRatio = `${pixels.width} / ${pixels.height}`;
  const caption = (...parts) => make('figcaption', {}, ...parts);
  const link = make('a', {href: '#' + encodeURIComponent(item.name),
    textContent: 'all its maps'});
  $('duel').replaceChildren(
    make('figure', {}, caption(make('b', {}, 'Image'), link), image),
    make('figure', {}, caption(...duelCaption()), makeDuel(item, pixels, {
      box: thing.box, everywhere: true,
      thresholds: data.difference.thresholds})));
}

function duelCaption() {
  const parts = [make('b', {}, sideTitles().join(' | '))];
  if (state.marks) {
    parts.push(key(HIT, 'unknown, marked'), key(MISSED, 'unknown, missed'),
      key(ALARM, 'false alarm'));
  } else {
    parts.push(makeScale(mapOf(state.pair[1])));
  }
  return parts;
}

function setMarks(marks) {
  state.marks = marks;
  $('as-marks').ariaPressed = marks;
  $('as-map').ariaPressed = !marks;
  drawDuels();
  for (const stage of document.querySelectorAll('.stage.duel')) {
    stage.previousElementSibling.replaceChildren(...duelCaption());
  }
}
