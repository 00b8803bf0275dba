"""Videos out of frames; cameras give the newest frame; nothing flickers."""
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import cv2
import numpy as np
import pytest
from results import make_result, make_writer
from sketches import abnn_config

from abnn_mmseg.export import ABNNInferencer, Frames, export_maps, live


@pytest.fixture(scope='module')
def inferencer(sketch, base, tmp_path_factory):
    cfg = abnn_config(sketch, tmp_path_factory.mktemp('work'), base)
    return ABNNInferencer(cfg, str(base), device='cpu', scores=['entropy'])


def write_video(path, frames, rate=10):
    video = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*'MJPG'), rate,
                            frames[0].shape[1::-1])
    for frame in frames:
        video.write(frame)
    video.release()
    return path


def scene(seed=0):
    return np.random.default_rng(seed).integers(0, 255, (32, 64, 3), np.uint8)


def frames_of(path):
    capture = cv2.VideoCapture(str(path))
    rate, frames = capture.get(cv2.CAP_PROP_FPS), []
    while (read := capture.read())[0]:
        frames.append(read[1])
    return rate, frames


def test_the_colours_of_a_small_score_span_its_values(inferencer, tmp_path,
                                                      monkeypatch):
    """Of its whole range they would be black."""
    monkeypatch.setattr(inferencer.model, 'scores', ('mutual_information', ))
    path = write_video(tmp_path / 'drive.avi', [scene(i) for i in range(2)])
    export_maps(inferencer, path, tmp_path / 'out', ['video'], video='side')
    [still, _] = (tmp_path / 'out/video').rglob('*.jpg')
    assert np.ptp(cv2.imread(str(still))[:, 64:].sum(2)) > 150


@pytest.mark.parametrize('kind, width', [('overlay', 64), ('side', 128)])
def test_a_video_comes_out_as_frames_and_as_a_video(inferencer, tmp_path,
                                                    kind, width):
    path = write_video(tmp_path / 'drive.avi', [scene(i) for i in range(5)])
    assert export_maps(inferencer, path, tmp_path / 'out', ['video'],
                       video=kind) == (5, 0)
    rate, frames = frames_of(tmp_path / 'out/video/entropy/drive.mp4')
    assert rate == pytest.approx(10) and len(frames) == 5
    assert frames[0].shape == (32, width, 3)
    stills = sorted((tmp_path / 'out/video/entropy/frames').glob('*.jpg'))
    errors = [[np.abs(frame.astype(int) - cv2.imread(str(still))).mean()
               for still in stills] for frame in frames]
    assert np.argmin(errors, 1).tolist() == list(range(5))


def test_a_killed_video_resumes_to_all_its_frames(inferencer, tmp_path):
    path = write_video(tmp_path / 'drive.avi', [scene(i) for i in range(5)])
    export_maps(inferencer, path, tmp_path / 'out', ['video'], limit=2)
    assert export_maps(inferencer, path, tmp_path / 'out', ['video'],
                       resume=True) == (3, 2)
    assert len(frames_of(tmp_path / 'out/video/entropy/drive.mp4')[1]) == 5


def test_a_still_scene_does_not_flicker(inferencer, tmp_path):
    """All frames are equal, so all maps are: no draw is made anew."""
    path = write_video(tmp_path / 'still.avi', [scene()] * 4)
    given = frames_of(path)[1]
    assert all((frame == given[0]).all() for frame in given)
    maps = [r.maps['entropy'] for r in inferencer.stream(str(path))]
    flicker = max(np.abs(one - maps[0]).max() for one in maps[1:])
    assert len(maps) == 4 and flicker == 0


def test_a_truncated_video_keeps_its_frames_and_says_so(inferencer, tmp_path,
                                                        monkeypatch):
    path = write_video(tmp_path / 'drive.avi', [scene(i) for i in range(5)])
    said = []
    monkeypatch.setattr('abnn_mmseg.export.inputs.print_log',
                        lambda text, *_: said.append(text))
    monkeypatch.setattr(Frames, '__len__', lambda self: 9)
    assert export_maps(inferencer, path, tmp_path / 'out', ['video']) == (
        5, 0)
    assert 'promises 9 frames, but only 5' in said[0]
    assert len(frames_of(tmp_path / 'out/video/entropy/drive.mp4')[1]) == 5


@pytest.fixture
def stream():
    """A camera that sends 200 numbered frames as MJPEG over HTTP."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header('Content-Type',
                             'multipart/x-mixed-replace; boundary=frame')
            self.end_headers()
            for number in range(200):
                picture = np.full((32, 64, 3), number, np.uint8)
                data = cv2.imencode('.jpg', picture)[1].tobytes()
                self.wfile.write(
                    b'--frame\r\nContent-Type: image/jpeg\r\nContent-Length: '
                    + str(len(data)).encode() + b'\r\n\r\n' + data + b'\r\n')
                time.sleep(0.01)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(('127.0.0.1', 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f'http://127.0.0.1:{server.server_address[1]}/live.mjpg'
    server.shutdown()
    server.server_close()


def test_a_slow_reader_of_a_stream_gets_the_newest_frame(stream,
                                                         monkeypatch):
    said = []
    monkeypatch.setattr(live, 'print_log', lambda text, *_: said.append(text))
    frames = Frames(stream)
    numbers = []
    for frame in frames:
        numbers.append(round(float(frame.image.mean())))
        time.sleep(0.2)
    camera = frames.live
    assert numbers == sorted(numbers) and 2 <= len(numbers) < 60
    assert camera.dropped == camera.read - len(numbers) > 50
    assert numbers[-1] > 180
    assert 'has ended' in said[-1] and f'{camera.dropped} dropped' in said[-1]


def test_a_stream_is_exported_until_it_ends(inferencer, stream, tmp_path):
    done = export_maps(inferencer, stream, tmp_path / 'out', ['video', 'npy'])
    assert done.written > 1
    [path] = (tmp_path / 'out/video/entropy').glob('*.mp4')
    assert len(frames_of(path)[1]) == done.written
    assert len(list((tmp_path / 'out/npy').rglob('*.npy'))) == done.written


@pytest.fixture
def rtsp():
    """A camera with RTSP that sends 90 frames."""
    script = Path(__file__).resolve().parents[1] / 'rtsp_server.py'
    if not Path('/usr/bin/python3').exists():
        pytest.skip('no Python of the system')
    server = subprocess.Popen(['/usr/bin/python3', str(script), '90'],
                              stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.DEVNULL)
    try:
        address = server.stdout.readline().strip()
        if not address:
            pytest.skip('no RTSP server of GStreamer')
        yield address
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


def test_a_camera_with_rtsp_drops_frames_and_ends(rtsp):
    frames, taken = Frames(rtsp), 0
    for frame in frames:
        assert frame.image.shape == (32, 64, 3)
        taken += 1
        time.sleep(0.2)
    camera = frames.live
    # Some of the 90 may come before the first can be decoded.
    assert 2 <= taken < 60 and taken + camera.dropped == camera.read > 60
    with pytest.raises(FileNotFoundError, match='cannot be opened'):
        list(Frames(f'{rtsp}/elsewhere'))


def test_frames_do_not_wait_while_the_network_works(inferencer, stream,
                                                    tmp_path, monkeypatch):
    """And Ctrl-C, which ends a camera, still makes the video."""
    given = []
    predict = inferencer.predict

    def interrupted(data):
        """Note how many frames were taken; stop at the fourth."""
        given.append(camera.given)
        if len(given) == 4:
            raise KeyboardInterrupt
        return predict(data)

    frames = Frames(stream)
    camera = frames.live
    monkeypatch.setattr('abnn_mmseg.export.items.Frames',
                        lambda source: frames)
    monkeypatch.setattr(inferencer, 'predict', interrupted)
    assert export_maps(inferencer, stream, tmp_path, ['video']) == (3, 0)
    assert given == [1, 2, 3, 4]
    [path] = (tmp_path / 'video/entropy').glob('*.mp4')
    assert len(frames_of(path)[1]) == 3


def test_a_camera_that_is_not_there_is_a_sentence(inferencer, tmp_path):
    with pytest.raises(FileNotFoundError, match='99 cannot be opened'):
        export_maps(inferencer, '99', tmp_path / 'out', ['npy'])


def test_frames_of_another_size_are_fitted(tmp_path):
    writer = make_writer('video', tmp_path, fps=5)
    for number, size in enumerate([(24, 36), (30, 40)]):
        writer.write(make_result(f'walk_{number:06d}', number, size=size))
    writer.close()
    _, frames = frames_of(tmp_path / 'video/entropy/walk.mp4')
    assert [frame.shape for frame in frames] == [(24, 36, 3)] * 2
