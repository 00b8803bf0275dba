/* The data of one image, loaded as a script: a page on disk cannot fetch. */

const cache = new Map(), waiting = new Map();
window.gallery = {receive(name, packed) { waiting.get(name)?.(packed); }};

function load(item) {
  if (!cache.has(item.name)) {
    if (cache.size > 5) cache.delete(cache.keys().next().value);
    cache.set(item.name, new Promise((resolve, reject) => {
      waiting.set(item.name, resolve);
      const script = make('script', {src: url('data', item.name, '.js')});
      script.onload = () => script.remove();
      script.onerror = () => {
        cache.delete(item.name);
        reject(Error(`Cannot read ${script.src}`));
      };
      document.head.append(script);
    }).then(unpack));
  }
  return cache.get(item.name);
}

async function inflate(text) {
  const bytes = Uint8Array.from(atob(text), char => char.charCodeAt(0));
  const stream = new Blob([bytes]).stream()
    .pipeThrough(new DecompressionStream('deflate'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

async function unpack(packed) {
  const pixels = {width: packed.width, height: packed.height, maps: {}};
  for (const key of ['prediction', 'truth', 'anomaly']) {
    pixels[key] = packed[key] ? await inflate(packed[key]) : null;
  }
  for (const [name, map] of Object.entries(packed.maps)) {
    const bytes = await inflate(map.levels), count = bytes.length / 2;
    const values = new Float32Array(count);
    const step = (map.high - map.low) / map.steps;
    for (let i = 0, level = 0; i < count; i++) {
      level = level + (bytes[i] << 8) + bytes[count + i] & 65535;
      values[i] = map.low + step * level;
    }
    pixels.maps[name] = values;
  }
  // Of each pixel, the classes of its set as bits; an alarm is one bit.
  pixels.guaranteed = {};
  for (const [risk, bits] of Object.entries(packed.guaranteed ?? {})) {
    pixels.guaranteed[risk] = await inflate(bits);
  }
  return pixels;
}
