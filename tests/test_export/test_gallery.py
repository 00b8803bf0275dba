"""The page works from disk in a real browser, and shows the real numbers."""
import json
import re
import shutil

import cv2
import numpy as np
import pytest

from abnn_mmseg.export.gallery import GalleryWriter, write_gallery
from abnn_mmseg.export.gallery.words import WORDS
from abnn_mmseg.export.result import MapResult
from abnn_mmseg.export.writers import WriterSettings
from abnn_mmseg.uncertainty.scores import SCORES

CLASSES = ['road', 'car', 'sky & <b>clouds</b>']
PALETTE = [[128, 64, 128], [0, 0, 142], [70, 130, 180]]
NAMES = ['town/0#1 50%', 'town/1', 'town/2', 'other/3', 'other/4']
FLAGS = ('--headless', '--no-sandbox', '--disable-gpu', '--disable-quic',
         '--no-first-run', '--disable-background-networking',
         '--disable-component-update', '--disable-sync',
         '--window-size=1300,900')


def make_result(index, size=(60, 100)):
    """A smooth map that grows with the index, and an anomaly in it."""
    rng = np.random.default_rng(index)
    noise = cv2.resize(rng.uniform(0, 1, (4, 6)).astype(np.float32),
                       size[::-1])
    anomaly = np.zeros(size, np.uint8)
    anomaly[20:40, 30:60] = 1
    anomaly[-5:] = 255
    truth = rng.integers(0, 3, size).astype(np.uint8)
    truth[anomaly > 0] = 255
    entropy = 0.1 * index + 0.3 * noise + 0.3 * (anomaly == 1)
    return MapResult(
        NAMES[index], prediction=rng.integers(0, 3, size),
        maps={'entropy': entropy.astype(np.float32), 'base: <msp>': noise},
        image=rng.integers(0, 256, (*size, 3), dtype=np.uint8),
        ground_truth=truth, anomaly=anomaly)


@pytest.fixture(scope='module')
def page(tmp_path_factory):
    return write_gallery(
        tmp_path_factory.mktemp('page'), map(make_result, range(5)), CLASSES,
        PALETTE, 'Maps </script> of a test',
        metrics=[dict(model='base', AUROC=86.2), dict(
            model='ABNN', AUROC=np.float32(91.5), ECE=float('nan'))])


def page_data(path):
    text = re.search('id="data">(.*?)</script>', path.read_text(), re.S)[1]
    return json.loads(text)


def test_every_image_has_its_files(page):
    for item in page_data(page)['images']:
        for path in ('images/{}.jpg', 'thumbs/image/{}.jpg', 'data/{}.js',
                     'thumbs/prediction/{}.png', 'thumbs/map-entropy/{}.jpg'):
            assert (page.parent / path.format(item['name'])).exists()


def test_the_page_needs_no_network(page):
    assert not re.search(r'(src|href)="?(https?:)?//', page.read_text())


def test_resume_keeps_images_of_the_killed_run(tmp_path):
    def writer(**settings):
        return GalleryWriter(WriterSettings(
            tmp_path, ['entropy'], CLASSES, PALETTE, **settings))

    writer().write(make_result(0))
    resumed = writer(resume=True)
    assert resumed.complete(NAMES[0]) and not resumed.complete(NAMES[1])
    resumed.write(make_result(1))
    resumed.close()
    images = page_data(tmp_path / 'gallery' / 'index.html')['images']
    assert {item['name'] for item in images} == set(NAMES[:2])


def test_large_images_are_shown_small_with_values_of_the_map(tmp_path):
    result = make_result(0, (300, 500))
    write_gallery(tmp_path, [result], CLASSES, PALETTE, max_side=100)
    assert cv2.imread(str(
        tmp_path / 'images' / f'{NAMES[0]}.jpg')).shape == (60, 100, 3)
    text = (tmp_path / 'data' / f'{NAMES[0]}.js').read_text()
    entry = json.loads(text[text.index(', {') + 2:-3])
    assert (entry['height'], entry['width']) == (60, 100)
    values = result.maps['entropy']
    assert values.min() <= entry['maps']['entropy']['low']
    assert entry['maps']['entropy']['high'] <= values.max()


def test_images_truth_and_anomalies_are_optional(tmp_path):
    result = make_result(0)
    result.image = result.ground_truth = result.anomaly = None
    write_gallery(tmp_path, [result], CLASSES, PALETTE)
    assert not (tmp_path / 'images').exists()
    item, = page_data(tmp_path / 'index.html')['images']
    assert 'anomaly' not in item and not item['truth']


def make_pair(index):
    """The base is blind to the object of every other image."""
    result = make_result(index)
    entropy = result.maps['entropy']
    seen = entropy if index % 2 else entropy - 0.3 * (result.anomaly == 1)
    result.maps = {'entropy': entropy, 'mutual_information': entropy ** 3,
                   'base: entropy': seen}
    return result


@pytest.fixture(scope='module')
def paired(tmp_path_factory):
    return write_gallery(
        tmp_path_factory.mktemp('paired'), map(make_pair, range(5)), CLASSES,
        PALETTE, 'A pair')


def test_objects_are_counted_at_equal_false_alarms(paired):
    data = page_data(paired)
    known = [np.concatenate([
        make_pair(i).maps[name][make_pair(i).anomaly == 0] for i in range(5)])
        for name in ('base: entropy', 'entropy')]
    difference = data['difference']
    assert difference['maps'] == ['base: entropy', 'entropy']
    for pixels, threshold in zip(known, difference['thresholds']):
        assert (pixels >= threshold).mean() == pytest.approx(0.05, abs=0.01)
    for i, item in enumerate(sorted(data['images'],
                                    key=lambda item: NAMES.index(
                                        item['name']))):
        thing, = item['objects']
        assert thing['box'] == [30, 20, 30, 20] and thing['size'] == 600
        result = make_pair(i)
        assert thing['found'] == [
            bool((result.maps[name][result.anomaly == 1] >= threshold).mean()
                 >= 0.5)
            for name, threshold in zip(difference['maps'],
                                       difference['thresholds'])]
    found = [item['objects'][0]['found'] for item in data['images']]
    assert f'{found.count([False, True])} only ABNN found' in (
        difference['text'])


def test_small_spots_are_no_objects(tmp_path):
    result = make_pair(0)
    result.anomaly[:] = 0
    result.anomaly[3, 3] = 1
    write_gallery(tmp_path, [result], CLASSES, PALETTE)
    data = page_data(tmp_path / 'index.html')
    assert data['difference'] is None and not data['images'][0]['objects']


def test_every_score_has_words():
    assert set(WORDS) == set(SCORES)


def test_maps_of_one_score_share_the_scale(tmp_path):
    result = make_result(0)
    result.maps = {'msp': result.maps['entropy'],
                   'base: msp': 0.5 * result.maps['entropy']}
    write_gallery(tmp_path, [result], CLASSES, PALETTE)
    first, second = page_data(tmp_path / 'index.html')['maps']
    assert first['scale'] == second['scale'] and first['scale'][0] == 0


@pytest.fixture(scope='module')
def chromium(tmp_path_factory):
    webdriver = pytest.importorskip('selenium.webdriver')
    browser = shutil.which('chromium') or shutil.which('google-chrome')
    driver = shutil.which('chromedriver')
    if not browser or not driver:
        pytest.skip('chromium and chromedriver are not installed')
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for flag in FLAGS:
        options.add_argument(flag)
    options.add_argument(f'--user-data-dir={tmp_path_factory.mktemp("user")}')
    options.set_capability('goog:loggingPrefs', {'browser': 'ALL'})
    service = webdriver.ChromeService(driver)
    window = webdriver.Chrome(options=options, service=service)
    yield window
    window.quit()


class Page:
    """What a person does with the page."""

    def __init__(self, window, path):
        self.window = window
        window.get('about:blank')
        window.get(path.as_uri())

    def all(self, selector):
        return self.window.find_elements('css selector', selector)

    def text(self, selector):
        return self.all(selector)[0].text

    def wait(self, condition):
        from selenium.webdriver.support.ui import WebDriverWait
        return WebDriverWait(self.window, 10, 0.05).until(
            lambda _: condition())

    def open(self, name):
        self.all(f'.card[title="{name}"]')[0].click()
        self.wait(lambda: self.all('canvas.mask') and
                  self.text('#name') == name)

    def press(self, *keys):
        from selenium.webdriver import ActionChains
        ActionChains(self.window).send_keys(*keys).perform()

    def mask_pixels(self):
        """Coloured pixels of the mask, read from the canvas."""
        return self.window.execute_script('''
            const mask = document.querySelector('canvas.mask');
            const pixels = mask.getContext('2d').getImageData(
              0, 0, mask.width, mask.height).data;
            return pixels.filter((value, i) => i % 4 === 3 && value).length;
        ''')

    def set_threshold(self, place):
        self.window.execute_script('''
            const slider = document.getElementById('threshold');
            slider.value = arguments[0];
            slider.dispatchEvent(new Event('input'));''', place)

    def errors(self):
        # Warnings are left out: reading the canvas, as tests do, causes one.
        return [entry['message'] for entry in self.window.get_log('browser')
                if entry['level'] == 'SEVERE']


@pytest.fixture
def shown(chromium, page):
    shown = Page(chromium, page)
    yield shown
    assert shown.errors() == []


def test_thumbnails_are_sorted_by_uncertainty_and_load(shown):
    names = [card.get_attribute('title') for card in shown.all('.card')]
    assert names == NAMES[::-1]
    shown.wait(lambda: shown.window.execute_script(
        'return [...document.querySelectorAll(".card img")]'
        '.every(picture => picture.naturalWidth > 0)'))
    shown.all('#order')[0].click()
    names = [card.get_attribute('title') for card in shown.all('.card')]
    assert names == NAMES


def test_names_metrics_and_classes_are_shown_as_text(shown):
    assert shown.text('#title') == 'Maps </script> of a test'
    assert 'sky & <b>clouds</b>' in shown.text('#legend')
    assert 'ABNN 91.5' in shown.text('#metrics')
    assert 'base: <msp>' in shown.text('#sort-map')


def test_the_filter_keeps_matching_names(shown):
    shown.all('#filter')[0].send_keys('OTHER')
    assert len(shown.all('.card')) == 2


def test_a_click_opens_every_layer(shown):
    shown.open(NAMES[0])
    captions = [caption.text for caption in shown.all('figcaption b')]
    assert captions == ['Image', 'Ground truth', 'Prediction', 'Entropy',
                        'base: <msp>']
    assert 'how undecided' in shown.text('.meaning')
    shown.wait(lambda: shown.window.execute_script(
        'return document.querySelector(".stage img").naturalWidth > 0'))


def test_the_slider_recolours_the_mask(shown):
    shown.open('town/1')
    result = make_result(1)
    low, high = 0, max(make_result(i).maps['entropy'].max() for i in range(5))
    counts = []
    for place in (100, 300, 500):
        shown.set_threshold(place)
        above = result.maps['entropy'] > low + (high - low) * place / 1000
        marked = (above | (result.anomaly == 1)) & (result.anomaly < 255)
        shown.wait(lambda marked=marked: abs(
            shown.mask_pixels() - marked.sum()) <= 5)
        counts.append(shown.mask_pixels())
    assert len(set(counts)) == 3


def test_arrows_change_the_image_and_escape_goes_back(shown):
    from selenium.webdriver.common.keys import Keys
    shown.open('other/4')
    shown.press(Keys.ARROW_RIGHT)
    shown.wait(lambda: shown.text('#name') == 'other/3')
    shown.all('#threshold')[0].click()
    shown.press(Keys.ARROW_LEFT)
    shown.wait(lambda: shown.text('#name') == 'other/4')
    shown.press(Keys.ESCAPE)
    assert shown.wait(lambda: shown.all('#grid')[0].is_displayed())


def test_the_cursor_reads_the_values_of_the_map(shown):
    from selenium.webdriver import ActionChains
    shown.open('town/2')
    ActionChains(shown.window).move_to_element(
        shown.all('.stage')[1]).perform()
    text = shown.wait(lambda: 'Entropy' in shown.text('#readout') and
                      shown.text('#readout'))
    x, y = map(int, re.search(r'x, y (\d+), (\d+)', text).groups())
    result = make_result(2)
    value = float(re.search(r'Entropy ([\d.e-]+)', text)[1])
    assert value == pytest.approx(result.maps['entropy'][y, x], abs=5e-4)
    assert f'prediction {CLASSES[result.prediction[y, x]]}' in text
    assert 'ground truth anomaly' in text


def test_blending_shows_one_picture_whose_opacity_moves(shown):
    shown.open('town/2')
    shown.press('b')
    assert len(shown.all('.stage')) == 1
    shown.window.execute_script('''
        const slider = document.getElementById('opacity');
        slider.value = 25;
        slider.dispatchEvent(new Event('input'));''')
    layer, = shown.all('canvas.layer')
    assert float(layer.value_of_css_property('opacity')) == 0.25


def test_a_page_without_images_and_truth_opens(chromium, tmp_path):
    result = make_result(1)
    result.image = result.ground_truth = result.anomaly = None
    shown = Page(chromium, write_gallery(
        tmp_path, [result], CLASSES, PALETTE, threshold=0.2))
    shown.open('town/1')
    above = (result.maps['entropy'] > 0.2).sum()
    assert abs(shown.mask_pixels() - above) <= 5
    assert shown.errors() == []


def test_the_page_opens_on_objects_that_only_one_map_found(chromium, paired):
    shown = Page(chromium, paired)
    assert 'only ABNN found' in shown.text('#sentence')
    first, = shown.all('#groups button[aria-pressed=true]')
    count = int(first.text.rsplit(' ', 1)[1])
    assert first.text.startswith('Only ABNN found') and count
    assert len(shown.all('.chip')) == count
    shown.wait(lambda: len(shown.all('#duel .tag')) == 2)
    assert [tag.text for tag in shown.all('#duel .tag')] == ['base', 'ABNN']
    assert shown.errors() == []


def test_the_border_between_two_maps_moves(chromium, paired):
    from selenium.webdriver import ActionChains
    shown = Page(chromium, paired)
    stage = shown.wait(lambda: shown.all('#duel .duel'))[0]
    ActionChains(shown.window).move_to_element_with_offset(
        stage, -stage.size['width'] // 4, 0).click().perform()
    handle, = shown.all('#duel .handle')
    assert 20 < int(handle.get_attribute('aria-valuenow')) < 30
    clip = shown.all('#duel .side.right')[0].value_of_css_property(
        'clip-path')
    assert 20 < float(re.findall(r'([\d.]+)%', clip)[-1]) < 30
    assert shown.errors() == []


def test_any_two_maps_compare_in_the_view(chromium, paired):
    shown = Page(chromium, paired)
    shown.open(NAMES[1])
    assert [tag.text for tag in shown.all('#panels .tag')] == ['base', 'ABNN']
    shown.window.execute_script('''
        const choice = document.getElementById('left-map');
        choice.value = 'mutual_information';
        choice.dispatchEvent(new Event('change'));''')
    assert [tag.text for tag in shown.all('#panels .tag')] == [
        'Mutual information', 'Entropy']
    assert shown.errors() == []


def touch(window, *fingers):
    """Fingers that move from one place to another, at the same time."""
    def send(kind, step):
        points = [dict(x=x + (to_x - x) * step, y=y + (to_y - y) * step, id=i)
                  for i, ((x, y), (to_x, to_y)) in enumerate(fingers)]
        window.execute_cdp_cmd('Input.dispatchTouchEvent', dict(
            type=kind, touchPoints=[] if kind == 'touchEnd' else points))
    send('touchStart', 0)
    for step in np.linspace(0.1, 1, 10).tolist():
        send('touchMove', step)
    send('touchEnd', 1)


@pytest.fixture
def phone(chromium):
    chromium.execute_cdp_cmd('Emulation.setDeviceMetricsOverride', dict(
        width=400, height=800, deviceScaleFactor=2, mobile=True))
    chromium.execute_cdp_cmd('Emulation.setTouchEmulationEnabled', dict(
        enabled=True, maxTouchPoints=2))
    yield chromium
    chromium.execute_cdp_cmd('Emulation.setTouchEmulationEnabled', dict(
        enabled=False))
    chromium.execute_cdp_cmd('Emulation.clearDeviceMetricsOverride', {})


def zoom_of(shown):
    return shown.window.execute_script('return {...state.zoom}')


def test_fingers_zoom_and_move_on_a_phone(phone, paired):
    shown = Page(phone, paired)
    shown.open(NAMES[1])
    box = shown.window.execute_script('''
        const box = document.querySelectorAll('#panels .stage')[1]
          .getBoundingClientRect();
        return [box.left + box.width / 2, box.top + box.height / 2];''')
    x, y = box
    touch(phone, ((x - 20, y), (x - 80, y)), ((x + 20, y), (x + 80, y)))
    zoom = zoom_of(shown)
    assert 3 < zoom['k'] < 5
    # The middle between the fingers stays where it is.
    assert (0.5 - zoom['x']) / zoom['k'] == pytest.approx(0.5, abs=0.03)
    touch(phone, ((x, y), (x + 60, y)))
    assert zoom_of(shown)['x'] > zoom['x'] + 0.1
    assert shown.errors() == []


def test_a_phone_shows_pictures_before_controls(phone, paired):
    shown = Page(phone, paired)
    shown.open(NAMES[1])
    bars = [bar.size['height'] for bar in shown.all('#view-page .bar')
            if bar.is_displayed()]
    assert sum(bars) < 60
    shown.all('#view-page .more')[0].click()
    assert shown.all('#threshold')[0].is_displayed()
    wide = phone.execute_script('return document.body.scrollWidth')
    assert wide <= 400


def test_the_worst_areas_are_listed_and_jumped_to(chromium, tmp_path):
    """The anomaly of the last image is the worst, for its map is highest."""
    write_gallery(tmp_path, map(make_result, range(5)), CLASSES, PALETTE,
                  threshold={'entropy': 0.62}, min_area=20)
    path = tmp_path / 'index.html'
    items = {item['name']: item for item in page_data(path)['images']}
    excess = [region['excess'] for item in items.values()
              for region in item['regions']]
    worst = max(items.values(), key=lambda item: max(
        [region['excess'] for region in item['regions']], default=0))
    page = Page(chromium, path)
    chips = page.all('#region-list .chip')
    assert len(chips) == len(excess) > 1
    chips[0].click()
    page.wait(lambda: page.all('canvas.mask') and
              page.text('#name') == worst['name'])
    left, top, wide, high = worst['regions'][0]['box']
    zoom = chromium.execute_script('return state.zoom')
    # The centre of the area lies in the part of the image that is shown.
    for start, side, size, place in ((left, wide, 100, zoom['x']),
                                     (top, high, 60, zoom['y'])):
        at = zoom['k'] * (start + side / 2) / size + place
        assert 0 < at < 1
    assert zoom['k'] >= 1 and not page.errors()


def test_without_a_threshold_there_are_no_areas(page):
    assert not any(item['regions'] for item in page_data(page)['images'])
