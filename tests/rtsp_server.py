"""A camera with RTSP, by GStreamer: numbered frames at 30 a second.

Run by the Python of the system, which has Debian's python3-gi; it also needs
gir1.2-gst-rtsp-server-1.0 and gstreamer1.0-plugins-{base,good,ugly}.
"""
import sys

import gi

gi.require_version('Gst', '1.0')
gi.require_version('GstRtspServer', '1.0')
from gi.repository import GLib, Gst, GstRtspServer  # noqa: E402

Gst.init(None)
if not all(map(Gst.ElementFactory.find, ('x264enc', 'rtph264pay'))):
    sys.exit('no encoder of H.264')
server = GstRtspServer.RTSPServer()
server.set_address('127.0.0.1')
server.set_service('0')
stream = GstRtspServer.RTSPMediaFactory()
stream.set_launch(
    f'( videotestsrc is-live=true num-buffers={sys.argv[1]} pattern=ball '
    '! video/x-raw,width=64,height=32,framerate=30/1 ! x264enc '
    'tune=zerolatency speed-preset=ultrafast key-int-max=5 '
    '! rtph264pay name=pay0 )')
server.get_mount_points().add_factory('/live', stream)
server.attach(None)
print(f'rtsp://127.0.0.1:{server.get_bound_port()}/live', flush=True)
GLib.MainLoop().run()
