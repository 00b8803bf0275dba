import json
import shutil
import statistics
from pathlib import Path

import cv2
import mmcv
import pytest
import torch
from mmengine.config import Config
from mmseg.registry import DATASETS, MODELS
from sketches import abnn_config, config
from toys import bayesian_config, build, toy_config

from abnn_mmseg.comparison import Method, compare, evaluation
from abnn_mmseg.comparison.figure import choose_images
from abnn_mmseg.comparison.report import lines
from abnn_mmseg.comparison.search import combinations
from abnn_mmseg.comparison.variants import VariantEvaluator, VariantModel
from abnn_mmseg.engine import save_members
from abnn_mmseg.engine.loading import bayesian_model_cfg, build_segmentor
from abnn_mmseg.engine.tester import test as run_test
from abnn_mmseg.members.files import fingerprint, norm_state, store
from abnn_mmseg.utils.configs import find_config

METRICS = [
    dict(type='IoUMetric', iou_metrics=['mIoU']),
    dict(type='CalibrationMetric'),
    dict(type='AnomalyMetric', scores=('entropy', 'mutual_information'))
]


@pytest.fixture(scope='module')
def runs(sketch, base, tmp_path_factory):
    """Configs, two bases and the members of two seeds, as files."""
    folder = tmp_path_factory.mktemp('runs')
    config(sketch, folder).dump(folder / 'base.py')
    cfg = abnn_config(sketch, folder, base)
    cfg.dump(folder / 'abnn.py')
    network = toy_config(auxiliary=False)
    network['decode_head']['num_classes'] = 15
    torch.save(dict(state_dict=build(network, seed=1).state_dict(),
                    meta=dict(training_seconds=60.)), folder / 'other.pth')
    model = build_segmentor(cfg, str(base))
    for seed in range(2):
        states = [
            {k: v + 0.1 * torch.randn_like(v) if k.endswith('.bias') else v
             for k, v in norm_state(model).items()} for _ in range(2)
        ]
        path = folder / f'members_{seed}.pth'
        save_members(path, [dict(state=s, meta=dict(seconds=30.))
                            for s in states], fingerprint(model))
        store(path, 'temperatures', dict(posterior_mean=2., centre=3.),
              model.posterior.noise_settings)
    return folder


@pytest.fixture
def comparison(runs, base, sketch, tmp_path):
    cfg = config(sketch, tmp_path)
    cfg.test_evaluator = METRICS
    cfg.test_sets = dict(ood=dict())
    cfg.figure = dict(images=2, score='entropy')
    base, other = str(base), str(runs / 'other.pth')
    plain, abnn = str(runs / 'base.py'), str(runs / 'abnn.py')
    cfg.methods = [
        dict(name='base', config=plain, checkpoints=[base],
             training_seconds=60.),
        dict(name='ensemble', config=plain, checkpoints=[base, other],
             posterior=dict(type='EnsemblePosterior')),
    ] + [
        dict(name=f'ABNN {seed}', group='ABNN', config=abnn,
             checkpoints=[base, str(runs / f'members_{seed}.pth')],
             variants={'mean': {}, 'centre': dict(prediction='centre'),
                       'T': dict(temperature='members')})
        for seed in range(2)
    ]
    return Config(cfg.to_dict())


def by_name(rows):
    return {(row['method'], row['variant']): row for row in rows}


def test_every_method_has_its_rows_in_table_json_and_figure(
        comparison, runs, base, tmp_path, capsys):
    path = tmp_path / 'c.json'
    rows = by_name(compare(comparison, str(path)))
    names = [('base', ''), ('ensemble', '')] + [
        (name, variant)
        for name in ('ABNN 0', 'ABNN 1', 'ABNN, 2 seeds')
        for variant in ('mean', 'centre', 'T')
    ]
    assert sorted(rows) == sorted(names)
    stored = by_name(json.loads(path.read_text())['rows'])
    assert stored[names[2]]['metrics'] == rows[names[2]]['metrics']
    assert (tmp_path / 'c_ood.png').stat().st_size > 1000
    table = capsys.readouterr().out
    assert 'ABNN, 2 seeds: T' in table and '±' in table
    assert "difference to 'base'" in table
    check_intervals(stored, names)
    check_metrics(rows, comparison, runs, base)
    check_variants(rows)
    check_seeds(rows)
    check_costs(rows, base, runs)


def check_metrics(rows, comparison, runs, base):
    """The numbers are those of tools/test.py."""
    for (method, variant), files, options in [
        (('base', ''), [base], {}),
        (('ABNN 1', 'centre'), [base, runs / 'members_1.pth'],
         {'model.prediction': 'centre'}),
        (('ABNN 1', 'T'), [base, runs / 'members_1.pth'],
         {'model.temperature': 'members'}),
    ]:
        entry = next(m for m in comparison.methods if m['name'] == method)
        cfg = Config.fromfile(entry['config'])
        cfg.test_evaluator = METRICS
        cfg.work_dir = comparison.work_dir
        cfg.merge_from_dict(options)
        expected = run_test(cfg, [str(f) for f in files])
        actual = rows[method, variant]['metrics']
        for key, value in actual.items():
            assert value == pytest.approx(expected[key], abs=0.02), key
        assert len(actual) > 10


def check_intervals(stored, names):
    """All but the reference are compared with it, groups too."""
    for name in names:
        row = stored[name]
        assert ('difference' in row) == (name[0] != 'base')
        for entry in row.get('difference', {}).values():
            if 'low' in entry:
                assert entry['low'] <= entry['value'] + 1e-9
                assert entry['value'] <= entry['high'] + 1e-9
        if name[0] != 'base':
            known = {key for key, entry in row['difference'].items()
                     if 'low' in entry}
            assert {'seg/mIoU', 'cal/pooled/ECE', 'cal/pooled/NLL',
                    'ood/pooled/entropy/FPR95'} <= known


def check_variants(rows):
    """They share what comes from the draws."""
    mean, centre, hot = (rows['ABNN 0', v] for v in ('mean', 'centre', 'T'))
    key = 'ood/pooled/entropy/AUROC'
    assert mean['metrics'][key] == centre['metrics'][key]
    assert mean['metrics'][key] == hot['metrics'][key]
    assert mean['metrics']['seg/mIoU'] == hot['metrics']['seg/mIoU']
    assert mean['metrics']['cal/pooled/NLL'] != hot['metrics'][
        'cal/pooled/NLL']
    assert 'ood/pooled/mutual_information/AUROC' not in rows['base', ''][
        'metrics']


def check_seeds(rows):
    values = [rows[f'ABNN {s}', 'mean']['metrics']['cal/pooled/ECE']
              for s in range(2)]
    row = rows['ABNN, 2 seeds', 'mean']
    assert row['metrics']['cal/pooled/ECE'] == pytest.approx(
        sum(values) / 2)
    assert row['spread']['cal/pooled/ECE'] == pytest.approx(
        statistics.stdev(values))


def check_costs(rows, base, runs):
    assert rows['base', '']['training'] == dict(
        base_seconds=60., own_seconds=0.)
    assert rows['ensemble', '']['training']['own_seconds'] == 60.
    assert rows['ABNN 0', 'mean']['training']['own_seconds'] == 60.
    assert rows['ensemble', '']['networks'] == 2
    assert rows['ABNN 0', 'mean']['networks'] == 4
    assert rows['ABNN 0', 'mean']['inference']['networks'] == 4
    sizes = [sum(v.nbytes for v in torch.load(path)['state_dict'].values())
             for path in (base, runs / 'other.pth')]
    assert rows['ensemble', '']['disk_bytes'] == sum(sizes)
    assert all(row['inference'][name] > 0 for row in rows.values()
               for name in ('seconds', 'ratio'))


def test_a_variant_is_charged_for_what_it_uses():
    """By a clock that is given."""
    variants = {'mean': {}, 'centre': dict(prediction='centre'),
                'base': dict(prediction='base')}
    some = VariantModel(build(bayesian_config()), variants)
    seconds = {'posterior_mean': 1, 'centre': 2, 'base': 4,
               **{f'conclude {name}': 8 for name in variants}}
    assert {name: some.own_seconds(name, seconds) for name in variants} == {
        'mean': 8 + 1, 'centre': 8 + 1 + 2, 'base': 8 + 1 + 4}


def test_an_interrupted_row_goes_on_and_a_finished_one_stays(
        comparison, tmp_path, monkeypatch):
    comparison.methods = comparison.methods[:1] + comparison.methods[2:3]
    expected = by_name(compare(comparison, str(tmp_path / 'whole.json')))
    comparison.work_dir = str(tmp_path / 'again')
    original, seen = VariantEvaluator.process, []

    def interrupted(self, data_samples, data_batch=None):
        original(self, data_samples, data_batch)
        # In the middle of the fifth image: its metrics have seen it.
        if len(seen) == 4:
            raise KeyboardInterrupt
        seen.append(Path(data_samples[0].img_path).name)

    monkeypatch.setattr(evaluation, 'SAVE_EVERY', 0.)
    monkeypatch.setattr(VariantEvaluator, 'process', interrupted)
    with pytest.raises(KeyboardInterrupt):
        compare(comparison, str(tmp_path / 'c.json'))
    assert len(json.loads((tmp_path / 'c.json').read_text())['rows']) == 1

    def counting(self, data_samples, data_batch=None):
        seen.append(Path(data_samples[0].img_path).name)
        original(self, data_samples, data_batch)

    monkeypatch.setattr(VariantEvaluator, 'process', counting)
    rows = by_name(compare(comparison, str(tmp_path / 'c.json')))
    assert seen == 2 * sorted(set(seen)) and len(seen) == 6
    for name, row in rows.items():
        assert row['metrics'] == expected[name]['metrics']
    compare(comparison, str(tmp_path / 'c.json'))
    assert len(seen) == 6
    assert not list((tmp_path / 'again').rglob('*unfinished*'))


def test_a_row_whose_file_was_cut_is_computed_again(comparison, tmp_path):
    def run():
        [row] = compare(comparison, str(tmp_path / 'c.json'), images=1,
                        only=['base'], device='cpu')
        return row['metrics']

    expected = run()
    for path in (tmp_path / 'rows').iterdir():
        whole = path.read_bytes()
        path.write_bytes(whole[:-30])
        assert run() == expected
        assert len(path.read_bytes()) > len(whole) - 30


def test_only_what_decides_on_a_row_is_in_its_key(comparison, tmp_path):
    entry = dict(comparison.methods[2])
    path = tmp_path / 'members.pth'
    shutil.copy(entry['checkpoints'][1], path)
    entry['checkpoints'] = [entry['checkpoints'][0], str(path)]

    def settings(variant='mean', **changes):
        return Method(**{**entry, **changes}).settings(variant)

    before = settings()
    assert settings(name='another name') == before
    assert settings(options={'model.posterior.alpha': 0.3}) != before
    assert settings('centre') != before
    hot = settings('T')
    store(path, 'temperatures', dict(posterior_mean=5.), 'alpha 0.1')
    assert settings() == before and settings('T') != hot
    assert Method(**entry).training()['own_seconds'] == 60
    content = torch.load(path)
    content['members'][0]['state']['backbone.bn1.bias'][0] += 1
    torch.save(content, path)
    assert settings() != before


def test_fewer_images_and_methods(comparison, tmp_path):
    path = str(tmp_path / 'c.json')
    [row] = compare(comparison, path, images=1, only=['base'], device='cpu')
    assert row['images'] == 1
    # What other runs have finished stays in the table.
    rows = compare(comparison, path, images=1, only=['ensemble'])
    assert [row['method'] for row in rows] == ['base', 'ensemble']
    first, second = lines(rows[:1], ('entropy', 'mutual_information'))
    assert second['AUROC'] == '-' and second['mIoU'] == ''


@pytest.mark.parametrize('change,error,message', [
    (dict(checkpoints=['none.pth']), FileNotFoundError, 'none.pth.*--only'),
    (dict(variants={'x': dict(alpha=1)}), ValueError, "'alpha'.*variant may"),
    (dict(variants={'x': dict(prediction='center')}), ValueError, "'centre'"),
    (dict(variants={'x': dict(temperature=0)}), ValueError, 'positive'),
    (dict(posterior=dict(type='EnsemblePosterior', checkpoints=['a.pth'])),
     ValueError, 'names checkpoints; write them in'),
])
def test_mistakes_in_a_method_get_a_sentence(comparison, change, error,
                                             message):
    with pytest.raises(error, match=message):
        Method(**{**comparison.methods[0], **change})


@pytest.mark.parametrize('change,message', [
    (dict(checkpoint=['a.pth']), "did you mean 'checkpoints'"),
    (dict(name=None), 'has no name'),
])
def test_mistakes_in_the_keys_of_a_method(comparison, change, message):
    first = {**comparison.methods[0], **change}
    comparison.methods = [{k: v for k, v in first.items() if v is not None}]
    with pytest.raises(ValueError, match=message):
        compare(comparison, 'c.json')


def test_optimizers_and_notes_are_not_weights(comparison, tmp_path):
    entry = dict(comparison.methods[0])
    before = Method(**entry)
    content = torch.load(entry['checkpoints'][0])
    entry['checkpoints'] = [str(tmp_path / 'with_optimizer.pth')]
    torch.save(dict(content, optimizer=torch.zeros(10**5), note='mine'),
               entry['checkpoints'][0])
    after = Method(**entry)
    assert after.settings('') == before.settings('')
    assert after.disk_bytes() == before.disk_bytes()


def test_a_config_without_test_data_says_so(comparison):
    comparison.test_dataloader = None
    with pytest.raises(ValueError, match='has no test_dataloader'):
        compare(comparison, 'c.json')


def test_a_score_that_is_none_is_refused_before_any_work(comparison):
    comparison.figure = dict(score='entropi')
    with pytest.raises(ValueError, match="did you mean 'entropy'"):
        compare(comparison, 'c.json')


def test_maps_of_another_score_are_not_drawn(comparison, tmp_path, capsys):
    path = str(tmp_path / 'c.json')
    compare(comparison, path, 1, ['base'])
    [figure] = tmp_path.glob('*.png')
    figure.unlink()
    comparison.figure.score = 'msp'
    compare(comparison, path, 1, ['base'])
    assert 'Not in c_ood.png: base' in capsys.readouterr().out
    assert not figure.exists()


def test_a_reference_that_is_no_method_is_refused(comparison, tmp_path):
    comparison.reference = 'bse'
    with pytest.raises(ValueError, match="did you mean 'base'"):
        compare(comparison, str(tmp_path / 'c.json'))


def test_a_table_without_anomalies_keeps_the_rest(comparison, tmp_path):
    comparison.test_evaluator = METRICS[:1]
    comparison.figure = dict(images=0)
    rows = compare(comparison, str(tmp_path / 'c.json'), 1, ['base'])
    [line] = lines(rows, ())
    assert float(line['mIoU']) >= 0 and line['AUROC'] == '-'
    assert not list(tmp_path.glob('*.png'))


def test_the_methods_of_camvid_fit_its_network():
    cfg = Config.fromfile('configs/compare_camvid.py')
    assert len(cfg.methods) == 15
    first = Config.fromfile(find_config(cfg.methods[0]['config']))
    model = MODELS.build(bayesian_model_cfg(first))
    networks = {}
    for method in cfg.methods:
        if 'posterior' in method:
            posterior = MODELS.build(method['posterior'])
            posterior.attach(model)
            networks[method['name']] = len(posterior)
    assert networks == {'MC dropout, head': 12, 'MC dropout, stages': 12,
                        'TTA': 4, 'ensemble of 3': 1, 'Laplace': 1,
                        'SWAG': 1, 'student': 1, 'student, norms': 1}
    abnn = Config.fromfile(find_config(cfg.methods[-1]['config']))
    posterior = MODELS.build(abnn.model.posterior)
    assert abnn.train_cfg.members * posterior.samples == 12


@pytest.mark.parametrize('name', ['noise', 'training'])
def test_the_search_on_camvid_changes_what_exists(name):
    """A misspelt key would make a trial of nothing."""
    search = Config.fromfile(f'configs/search_camvid_{name}.py')
    for options in (*combinations(search.search.train),
                    *combinations(search.search.get('test', [{}]))):
        for key in options:
            assert _has(search, key), key


def _has(cfg, key):
    for part in key.split('.')[:-1]:
        cfg = cfg[part]
    return key.split('.')[-1] in cfg


def test_changed_images_at_the_same_path_have_other_rows(
        comparison, sketch, tmp_path):
    root = tmp_path / 'data'
    shutil.copytree(sketch, root)
    comparison.methods = comparison.methods[:1]
    comparison.test_dataloader.dataset.data_root = str(root)

    def key():
        [row] = compare(comparison, str(tmp_path / 'c.json'))
        return row['key']

    before = key()
    image = next((root / 'test_ood' / 'leftImg8bit').rglob('*.png'))
    content = image.read_bytes()
    cv2.imwrite(str(image), 255 - cv2.imread(str(image)))
    assert key() != before
    # A copy of the data, with other dates, is the same data.
    image.write_bytes(content)
    assert key() == before


def test_each_checkpoint_is_read_once(comparison, tmp_path, monkeypatch):
    read, load = [], torch.load

    def counting(path, *args, **kwargs):
        if not kwargs.get('mmap'):
            read.append(str(path))
        return load(path, *args, **kwargs)

    monkeypatch.setattr(torch, 'load', counting)
    comparison.test_sets = dict(ood=dict(), id=dict(split='test_id'))
    comparison.methods = comparison.methods[:3]
    compare(comparison, str(tmp_path / 'c.json'), images=1)
    files = {str(Path(path).resolve()) for method in comparison.methods
             for path in method['checkpoints']}
    assert len(read) == len(set(read)) and set(read) <= files


def test_images_are_chosen_by_their_labels_alone(comparison, monkeypatch):
    dataset = DATASETS.build(comparison.test_dataloader.dataset)
    shares = [(dataset[i]['data_samples'].gt_anomaly.data == 1).float().mean()
              for i in range(len(dataset))]

    def refuse(*args):
        raise AssertionError('an image was decoded')

    monkeypatch.setattr(mmcv, 'imfrombytes', refuse)
    monkeypatch.setattr(mmcv.transforms.loading.mmcv, 'imfrombytes', refuse)
    images = range(len(dataset))
    assert choose_images(dataset, images, 1) == [
        max(images, key=lambda i: shares[i])]
    assert choose_images(dataset, images, len(dataset)) == list(images)
    assert choose_images(dataset, images, 0) == []
    # Without anomaly labels, nothing is read at all.
    wrapped = DATASETS.build(dict(
        type='ConcatDataset', datasets=[comparison.test_dataloader.dataset]))
    assert choose_images(wrapped, images, 1) == [0]
