"""A student learns what its teacher says, and anybody can load it."""
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from mmengine.runner import load_checkpoint
from mmseg.registry import MODELS
from PIL import Image
from sketches import abnn_config, save_two_members

from abnn_mmseg.cli.main import main
from abnn_mmseg.engine.distiller import distil
from abnn_mmseg.engine.loading import build_segmentor
from abnn_mmseg.members.files import read_members, save_members
from abnn_mmseg.models.answering import PREDICTIONS
from abnn_mmseg.models.posteriors import DistilledPosterior
from abnn_mmseg.models.students import DESIGNS
from abnn_mmseg.uncertainty import SCORES

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope='module')
def members(sketch, base, tmp_path_factory):
    folder = tmp_path_factory.mktemp('teacher')
    cfg = abnn_config(sketch, folder, base)
    save_two_members(build_segmentor(cfg, str(base)), folder / 'members.pth')
    return folder / 'members.pth'


def distil_config(sketch, folder, base, members, steps=30, **options):
    """A teacher that is far from its base, and a short distillation."""
    cfg = abnn_config(sketch, folder, base, prediction='base')
    cfg.model.posterior.update(
        alpha=0.5, members=str(members),
        views=dict(flips=('horizontal', )))
    cfg.train_cfg = dict(
        type='DistillTrainLoop', max_iters=steps, lr=0.02, width=8,
        validate=2, interval=4, **options)
    return cfg


def student_config(sketch, folder, base, student=None, **model):
    cfg = abnn_config(sketch, folder, base, prediction='base', **model)
    cfg.model.posterior = dict(type='DistilledPosterior', student=student)
    return cfg


@pytest.fixture(scope='module', params=DESIGNS)
def design(request):
    return request.param


@pytest.fixture(scope='module')
def distilled(sketch, base, members, design, tmp_path_factory):
    """The folder of a student, and the rows of the closing table."""
    folder = tmp_path_factory.mktemp('student')
    return folder, distil(distil_config(
        sketch, folder, base, members, design=design))


def test_a_student_comes_nearer_to_its_teacher(distilled, design):
    folder, rows = distilled
    base, teacher, student = rows
    assert [r['name'] for r in rows] == ['base', 'teacher', 'student']
    assert teacher['divergence'] < 1e-6
    # Thirty steps of a toy: other norms change slower than a new head.
    near = dict(norms=0.95, head=0.7)[design]
    assert student['divergence'] < near * base['divergence']
    assert student['kept'] == pytest.approx(
        1 - student['divergence'] / base['divergence'], abs=1e-3)
    assert json.loads((folder / 'validation.json').read_text()) == rows


def test_the_file_is_small_and_knows_its_teacher(distilled, design):
    [member] = read_members(distilled[0] / 'student.pth')
    about = member['meta']['student']
    assert about['design'] == design
    assert about['teacher']['networks'] == 4
    assert about['teacher']['members'] == 2
    assert 'alpha 0.5' in about['teacher']['noise']
    assert (distilled[0] / 'student.pth').stat().st_size < 60_000


def test_the_class_map_is_the_base_s_bit_for_bit(
        distilled, sketch, base, tmp_path, images):
    student = build_segmentor(
        student_config(sketch, tmp_path, base),
        [str(base), str(distilled[0] / 'student.pth')])
    plain = build_segmentor(abnn_config(sketch, tmp_path, base), str(base))
    plain.posterior.samples, plain.posterior.alpha = 1, 0.
    with torch.no_grad():
        ours, theirs = student.predict(images), plain.predict(images)
    for one, other in zip(ours, theirs):
        assert torch.equal(one.pred_sem_seg.data, other.pred_sem_seg.data)
        assert torch.equal(one.seg_logits.data, other.seg_logits.data)
        assert (one.uncertainty.entropy != other.uncertainty.entropy).any()


def test_one_pass_of_the_network_is_enough(distilled, design, sketch, base,
                                           tmp_path, images):
    model = build_segmentor(
        student_config(sketch, tmp_path, base),
        [str(base), str(distilled[0] / 'student.pth')])
    passes = []
    model.backbone.register_forward_hook(lambda *_: passes.append(1))
    model.scores = tuple(SCORES)
    model.prediction = 'base' if design == 'head' else 'posterior_mean'
    with torch.no_grad():
        [sample, _] = model.predict(images)
    assert len(passes) == 1
    for score in SCORES:
        assert torch.isfinite(sample.uncertainty.get(score)).all(), score
    for score in ('mutual_information', 'variance'):
        map_ = sample.uncertainty.get(score)
        assert map_.min() >= 0 and map_.max() > 0


def test_windows_and_views_work_as_with_every_posterior(
        distilled, sketch, base, tmp_path, images):
    cfg = student_config(sketch, tmp_path, base, str(
        distilled[0] / 'student.pth'))
    cfg.model.posterior.views = dict(flips=('horizontal', ))
    cfg.model.test_cfg = dict(mode='slide', crop_size=(32, 32),
                              stride=(16, 16))
    model = build_segmentor(cfg, str(base))
    with torch.no_grad():
        [one, _] = model.predict(images)
        [mirrored, _] = model.predict(images.flip(-1))
    for name in ('entropy', 'mutual_information'):
        assert torch.allclose(one.uncertainty.get(name),
                              mirrored.uncertainty.get(name).flip(-1),
                              atol=1e-5)
    model.posterior = plain = type(model.posterior).__base__()
    with pytest.raises(NotImplementedError):
        len(plain)


@pytest.mark.parametrize('prediction', PREDICTIONS)
def test_every_prediction_has_a_class_map(distilled, sketch, base, tmp_path,
                                          images, prediction):
    model = build_segmentor(
        student_config(sketch, tmp_path, base,
                       str(distilled[0] / 'student.pth')), str(base))
    model.prediction = prediction
    with torch.no_grad():
        [sample, _] = model.predict(images)
    assert torch.isfinite(sample.seg_logits.data).all()


def test_an_interrupted_distillation_makes_the_same_student(
        distilled, design, sketch, base, members, tmp_path):
    cfg = distil_config(sketch, tmp_path / 'work', base, members,
                        design=design)
    cfg.dump(tmp_path / 'config.py')
    command = [sys.executable, ROOT / 'tools/distill.py',
               tmp_path / 'config.py', base, members, '--work-dir',
               tmp_path / 'work']
    # Sums of one thread are those of this process.
    process = subprocess.Popen(
        command, start_new_session=True,
        env=dict(os.environ, OMP_NUM_THREADS='1'))
    checkpoint = tmp_path / 'work/distillation/iter_8.pth'
    while not checkpoint.exists():
        assert process.poll() is None, 'it ended before it was interrupted'
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (tmp_path / 'work/student.pth').exists()
    cfg = distil_config(sketch, tmp_path / 'work', base, members,
                        design=design)
    cfg.resume = True
    rows = distil(cfg)
    [expected] = read_members(distilled[0] / 'student.pth')
    [actual] = read_members(tmp_path / 'work/student.pth')
    for name, value in expected['state'].items():
        torch.testing.assert_close(actual['state'][name], value, msg=name)
    for row, known in zip(rows, distilled[1]):
        assert row.pop('name') == known['name']
        assert row == pytest.approx(
            {key: known[key] for key in row}, rel=1e-3)


def test_a_finished_student_is_kept(distilled, design, sketch, base,
                                    members):
    before = (distilled[0] / 'student.pth').read_bytes()

    def config(**options):
        return distil_config(sketch, distilled[0], base, members,
                             design=design, **options)

    with pytest.raises(FileExistsError, match='would be replaced'):
        distil(config())
    cfg = config()
    cfg.resume = True
    assert distil(cfg) == distilled[1]
    cfg = config(networks=2)
    cfg.resume = True
    with pytest.raises(ValueError, match='trained with .*networks'):
        distil(cfg)
    assert (distilled[0] / 'student.pth').read_bytes() == before


def test_a_student_goes_on_with_its_teacher_only(
        distilled, design, sketch, base, members, tmp_path):
    path = tmp_path / 'members.pth'
    kept = read_members(members)
    for member in kept:
        member['state']['backbone.bn1.bias'] += 0.1
    save_members(path, [dict(state=m['state'], meta=m['meta'])
                        for m in kept], kept[0]['fingerprint'])
    cfg = distil_config(sketch, tmp_path / 'work', base, path, design=design)
    shutil.copytree(distilled[0] / 'distillation',
                    tmp_path / 'work/distillation')
    settings = tmp_path / 'work/distillation/settings.json'
    settings.write_text(settings.read_text().replace(
        str(members), str(path)))
    cfg.resume = True
    with pytest.raises(ValueError, match='was trained with weights='):
        distil(cfg)


def test_a_folder_of_images_is_enough(sketch, base, members, tmp_path):
    for number in range(3):
        path = tmp_path / f'street/{number}/image.png'
        path.parent.mkdir(parents=True)
        Image.new('RGB', (90, 40), (90, 20 * number, 60)).save(path)
    cfg = distil_config(
        sketch, tmp_path / 'both', base, members, steps=2,
        images=str(tmp_path / 'street'))
    assert len(distil(cfg)) == 3
    cfg = distil_config(
        sketch, tmp_path / 'alone', base, members, steps=2,
        images=str(tmp_path / 'street'), train_images=False)
    assert len(distil(cfg)) == 3


def test_mmsegs_own_tool_distils(sketch, base, members, tmp_path):
    import mmseg
    cfg = distil_config(sketch, tmp_path / 'work', base, members, steps=2)
    cfg.custom_imports = dict(imports=['abnn_mmseg'])
    cfg.dump(tmp_path / 'config.py')
    subprocess.run(
        [sys.executable, Path(mmseg.__path__[0]) / '.mim/tools/train.py',
         tmp_path / 'config.py'], check=True)
    assert read_members(tmp_path / 'work/student.pth')


def test_mistakes_end_in_a_sentence(distilled, sketch, base, members,
                                    tmp_path, images):
    student = str(distilled[0] / 'student.pth')

    def config(**model):
        return student_config(sketch, tmp_path, base, **model)

    model = build_segmentor(config(), str(base))
    with torch.no_grad(), pytest.raises(ValueError, match='has no student'):
        model.predict(images)
    with pytest.raises(ValueError, match='holds student members, which BNL'):
        build_segmentor(abnn_config(sketch, tmp_path, base),
                        [str(base), student])
    with pytest.raises(ValueError, match='members, which DistilledPosterior'):
        build_segmentor(config(), [str(base), str(members)])
    other = torch.load(base)
    for key, value in other['state_dict'].items():
        if key.endswith('bn1.bias'):
            value += 0.5
    torch.save(other, tmp_path / 'other.pth')
    with pytest.raises(ValueError, match='belongs to another base .norms'):
        build_segmentor(config(), [str(tmp_path / 'other.pth'), student])
    cfg = distil_config(sketch, tmp_path / 'a', base, members, networks=9)
    with pytest.raises(ValueError, match='networks=9 of the distillation'):
        distil(cfg)
    cfg = student_config(sketch, tmp_path / 'b', base, student)
    cfg.train_cfg = dict(type='DistillTrainLoop')
    with pytest.raises(ValueError, match='is a student already'):
        distil(cfg)
    cfg = distil_config(sketch, tmp_path / 'c', base, members,
                        train_images=False)
    with pytest.raises(ValueError, match='are no images to learn from'):
        distil(cfg)


def test_a_score_it_was_not_trained_for_is_refused(
        sketch, base, members, tmp_path, images):
    distil(distil_config(sketch, tmp_path, base, members, steps=2,
                         statistics=('probability', )))
    model = build_segmentor(
        student_config(sketch, tmp_path, base, scores=('entropy', )),
        [str(base), str(tmp_path / 'student.pth')])
    with torch.no_grad():
        assert model.predict(images)[0].uncertainty.entropy.max() > 0
        model.scores = ('entropy', 'mutual_information')
        with pytest.raises(ValueError, match="'mutual_information', only"):
            model.predict(images)


def test_the_config_alone_brings_the_student(distilled, sketch, base,
                                             tmp_path, images):
    cfg = student_config(sketch, tmp_path, base,
                         str(distilled[0] / 'student.pth'))
    model = MODELS.build(cfg.model)
    load_checkpoint(model, str(base), map_location='cpu')
    model.eval()
    assert isinstance(model.posterior, DistilledPosterior)
    with torch.no_grad():
        assert model.predict(images)[0].uncertainty.entropy.max() > 0


def test_export_takes_a_student_and_says_its_speed(
        distilled, sketch, base, tmp_path, capsys):
    student_config(sketch, tmp_path, base).dump(tmp_path / 'student.py')
    main([
        'export', str(tmp_path / 'student.py'), str(base), 'test',
        str(tmp_path / 'maps'), '--members',
        str(distilled[0] / 'student.pth'), '--format', 'npy', '--limit', '2',
        '--scores', 'mutual_information'])
    assert 'frames per second' in capsys.readouterr().out
    files = list((tmp_path / 'maps/npy/mutual_information').rglob('*.npy'))
    assert len(files) == 2
