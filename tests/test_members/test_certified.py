"""Guarantees are calibrated, kept with the weights, and refused elsewhere."""
import json
import shutil
import sys

import pytest
import torch
from mmengine.config import Config
from mmseg.registry import DATASETS
from sketches import abnn_config, config, save_two_members

from abnn_mmseg.cli.main import main
from abnn_mmseg.engine.loading import build_segmentor
from abnn_mmseg.engine.tester import test as run_test
from abnn_mmseg.evaluation import GuaranteeMetric
from abnn_mmseg.evaluation.fields import IGNORE
from abnn_mmseg.members.certify import Wanted, certify
from abnn_mmseg.members.exchange import export_whole
from abnn_mmseg.members.files import read_members, store_guarantee
from abnn_mmseg.models.guaranteed import why_no_guarantee

RISKS = {
    'label-set': Wanted('label-set', 0.3),
    'coverage': Wanted('coverage', 0.3, part=0.7),
    'false-alarm': Wanted('false-alarm', 0.3, score='entropy', part=0.1),
    'miss': Wanted('miss', 0.3, score='entropy'),
}


@pytest.fixture
def cfg(sketch, base, tmp_path):
    cfg = abnn_config(sketch, tmp_path / 'work', base)
    cfg.val_dataloader.dataset.split = 'test_ood'
    cfg.model.scores = ('entropy', 'mutual_information')
    return cfg


@pytest.fixture
def members(cfg, base, tmp_path):
    path = tmp_path / 'members.pth'
    save_two_members(build_segmentor(cfg, base), path)
    return path


def make(cfg, model, wanted):
    return certify(cfg, model, wanted, cfg.val_dataloader.dataset)


def images(cfg):
    return DATASETS.build(cfg.val_dataloader.dataset)


def predict(model, item):
    with torch.no_grad():
        [sample] = model.test_step(dict(
            inputs=[item['inputs']], data_samples=[item['data_samples']]))
    return sample


@pytest.fixture
def certified(cfg, base, members):
    """A config and a member file with all four guarantees."""
    model = build_segmentor(cfg, [base, members])
    for wanted in RISKS.values():
        store_guarantee(members, make(cfg, model, wanted).to_dict())
    return cfg, base, members


def test_the_sets_and_alarms_are_those_of_the_definition(certified):
    cfg, *files = certified
    model = build_segmentor(cfg, files)
    guarantees = {g.risk: g for g in model.posterior.guarantees}
    assert set(guarantees) == set(RISKS)
    missing, missed, covered, flagged = [], [], [], []
    for item in images(cfg):
        sample = predict(model, item)
        probability = sample.seg_logits.data.softmax(0)
        labels = sample.gt_sem_seg.data[0]
        entropy = sample.uncertainty.entropy
        for risk, guarantee in guarantees.items():
            values = probability if guarantee.has_sets else entropy
            assert torch.equal(sample.guaranteed.get(risk),
                               values >= guarantee.threshold)
        known = labels != IGNORE

        def lacking(risk, sets=sample.guaranteed, known=known, labels=labels):
            found = sets.get(risk)[:, known].gather(0, labels[known][None])
            return 1 - found.double().mean().item()

        missing.append(lacking('label-set'))
        covered.append(1 - lacking('coverage'))
        odd = sample.gt_anomaly.data[0] == 1
        alarm = sample.guaranteed.get('miss')[0]
        missed.append(1 - alarm[odd].double().mean().item())
        usual = sample.gt_anomaly.data[0] == 0
        flagged.append(sample.guaranteed.get(
            'false-alarm')[0][usual].double().mean().item())
    # (n R + 1) / (n + 1) <= 0.3, for n = 3
    assert 3 * sum(missing) / 3 + 1 <= 4 * 0.3
    assert 3 * sum(missed) / 3 + 1 <= 4 * 0.3
    # ceil(4 * 0.7) = 3 of 3
    assert min(covered) >= 0.7 and max(flagged) <= 0.1
    assert guarantees['label-set'].measured == pytest.approx(
        sum(missing) / 3, abs=1e-6)
    assert guarantees['miss'].measured == pytest.approx(
        sum(missed) / 3, abs=1e-6)
    assert guarantees['coverage'].measured == 0


def test_the_metric_puts_the_promise_beside_what_holds(certified):
    cfg, *files = certified
    cfg.test_dataloader = cfg.val_dataloader
    cfg.test_evaluator = [dict(type='GuaranteeMetric')]
    metrics = run_test(cfg, files)
    assert metrics['risk/label-set/coverage'] >= 70
    assert metrics['risk/label-set/promised'] == pytest.approx(70)
    assert 0 < metrics['risk/label-set/set_size'] <= 15
    assert metrics['risk/coverage/images_covered'] == 100
    assert metrics['risk/false-alarm/false_alarms'] == 0
    assert metrics['risk/miss/missed'] <= 30
    assert metrics['risk/miss/promised'] == 30


def test_the_metric_says_what_is_missing(cfg, base, members):
    model = build_segmentor(cfg, [base, members])
    sample = predict(model, images(cfg)[0])
    assert 'guaranteed' not in sample
    with pytest.raises(ValueError, match='no guarantee is stored.*certify'):
        GuaranteeMetric().process({}, [sample.to_dict()])


@pytest.mark.parametrize('change', [
    dict(alpha=0.3), dict(samples=4), dict(seed=1), dict(networks=1),
    dict(antithetic=False), dict(tolerance=0.01),
    dict(views=dict(flips=('horizontal', )))])
def test_other_settings_refuse_it(certified, change):
    cfg, *files = certified
    cfg.model.posterior.update(change)
    model = build_segmentor(cfg, files)
    assert 'guaranteed' not in predict(model, images(cfg)[0])
    with pytest.raises(AssertionError, match='stored holds for.*is set to'):
        raise AssertionError(why_no_guarantee(model, ['label-set']))


def test_another_normalization_of_images_refuses_it(certified):
    cfg, *files = certified
    cfg.model.data_preprocessor.update(mean=[0.] * 3, std=[255.] * 3)
    model = build_segmentor(cfg, files)
    assert 'guaranteed' not in predict(model, images(cfg)[0])
    assert 'mean 0/0/0, std 255/255/255' in why_no_guarantee(
        model, ['label-set'])


def test_temperature_and_prediction_matter_to_sets_only(certified):
    cfg, *files = certified
    for change in (dict(temperature=2.), dict(prediction='centre')):
        model = build_segmentor(
            Config(dict(cfg, model=dict(cfg.model, **change))), files)
        kept = predict(model, images(cfg)[0]).guaranteed
        assert set(kept.keys()) == {'false-alarm', 'miss'}


def test_other_weights_refuse_it(certified, tmp_path):
    cfg, base, members = certified
    other = read_members(members)
    for member in other:
        member['state']['backbone.bn1.bias'] += 0.5
    from abnn_mmseg.members.files import save_members
    save_members(tmp_path / 'other.pth', [
        dict(state=m['state'], meta=m['meta']) for m in other],
        other[0]['fingerprint'])
    model = build_segmentor(cfg, [base, tmp_path / 'other.pth'])
    assert model.posterior.guarantees == []
    assert 'none is stored' in why_no_guarantee(model, ['label-set'])


def test_one_checkpoint_carries_its_guarantees(certified, tmp_path):
    cfg, base, members = certified
    whole = tmp_path / 'whole.pth'
    export_whole(base, read_members(members), whole)
    found = build_segmentor(cfg, whole).posterior.guarantees
    assert found == build_segmentor(cfg, [base, members]).posterior.guarantees


def test_a_new_one_replaces_that_of_the_same_settings_only(certified):
    cfg, *files = certified
    model = build_segmentor(cfg, files)
    store_guarantee(files[1], make(cfg, model, Wanted(
        'label-set', 0.4)).to_dict())
    model.temperature = 2.
    store_guarantee(files[1], make(cfg, model, Wanted(
        'label-set', 0.5)).to_dict())
    kept = build_segmentor(cfg, files).posterior.guarantees
    levels = {(g.risk, g.level) for g in kept}
    assert levels == {('coverage', 0.3), ('false-alarm', 0.3), ('miss', 0.3),
                      ('label-set', 0.4), ('label-set', 0.5)}


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, 'argv', ['abnn'])
    main(['certify', *map(str, arguments)])


def test_a_base_keeps_its_guarantees_in_a_file(sketch, base, tmp_path,
                                               monkeypatch, capsys):
    plain = config(sketch, tmp_path / 'work')
    plain.dump(tmp_path / 'plain.py')
    own = tmp_path / 'base.pth'
    shutil.copy(base, own)
    run(monkeypatch, tmp_path / 'plain.py', own, '--risk', 'label-set',
        '--level', 0.3)
    said = capsys.readouterr().out
    assert "70 % of an image's pixels" in said
    file = tmp_path / 'base.guarantees.json'
    assert f"model.guarantees='{file}'" in said
    [content] = json.loads(file.read_text())['guarantees']
    assert content['lambda'] == 1 - content['threshold']
    assert content['images'] == 3 and content['level'] == 0.3
    plain.model.guarantees = str(file)
    model = build_segmentor(plain, own)
    sample = predict(model, images(plain)[0])
    assert sample.guaranteed.get('label-set').shape[0] == 15
    # Test-time augmentation asks for its own, in the same file.
    plain.model.type = 'BayesianEncoderDecoder'
    plain.model.posterior = dict(type='TTAPosterior')
    plain.dump(tmp_path / 'tta.py')
    assert 'guaranteed' not in predict(
        build_segmentor(plain, own), images(plain)[0])
    run(monkeypatch, tmp_path / 'tta.py', own, '--risk', 'label-set',
        '--level', 0.3, '--out', file)
    assert len(json.loads(file.read_text())['guarantees']) == 2
    assert 'guaranteed' in predict(
        build_segmentor(plain, own), images(plain)[0])


def test_members_keep_what_the_command_found(cfg, base, members, tmp_path,
                                             monkeypatch):
    cfg.dump(tmp_path / 'abnn.py')
    run(monkeypatch, tmp_path / 'abnn.py', base, members, '--risk', 'miss',
        '--level', 0.4, '--score', 'mutual_information')
    [found] = build_segmentor(cfg, [base, members]).posterior.guarantees
    assert (found.risk, found.score) == ('miss', 'mutual_information')


def refusal(monkeypatch, capsys, *arguments):
    with pytest.raises(SystemExit):
        run(monkeypatch, *arguments)
    return capsys.readouterr().err


def test_what_cannot_be_promised_is_refused(cfg, base, members, tmp_path,
                                            monkeypatch, capsys):
    cfg.dump(tmp_path / 'abnn.py')
    before = members.read_bytes()
    start = [tmp_path / 'abnn.py', base, members]

    def refused(*arguments):
        said = refusal(monkeypatch, capsys, *start, *arguments)
        assert members.read_bytes() == before
        return said

    assert 'it takes at least 19' in refused(
        '--risk', 'label-set', '--level', 0.05)
    assert 'write 0.05 for 5 %' in refused(
        '--risk', 'label-set', '--level', 5)
    assert "needs the score 'energy'" in refused(
        '--risk', 'miss', '--level', 0.4, '--score', 'energy')
    assert 'takes no part' in refused(
        '--risk', 'miss', '--level', 0.4, '--part', 0.1)
    cfg.val_dataloader.dataset.split = 'val'
    cfg.dump(tmp_path / 'abnn.py')
    assert 'images with an unknown (OOD) pixel' in refused(
        '--risk', 'miss', '--level', 0.4)
    assert 'are training images of this config' in refused(
        '--risk', 'label-set', '--level', 0.4, '--data', 'train')


def test_a_copy_of_a_training_image_is_recognized(cfg, base, sketch, tmp_path,
                                                  monkeypatch, capsys):
    copy = tmp_path / 'copy'
    shutil.copytree(sketch, copy)
    for kind in ('leftImg8bit', 'leftLabel'):
        ours = sorted((copy / 'val' / kind).iterdir())
        theirs = sorted((sketch / 'train' / kind).iterdir())
        shutil.copy(theirs[0], ours[1])
    cfg.val_dataloader.dataset.update(split='val', data_root=str(copy))
    model = build_segmentor(cfg, base)
    with pytest.raises(ValueError, match='1 of the 3 images of val'):
        make(cfg, model, RISKS['label-set'])
    cfg.train_dataloader.dataset.data_root = str(tmp_path / 'gone')
    assert make(cfg, model, RISKS['label-set']).images == 3
