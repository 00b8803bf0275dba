"""A static page over exported maps: no server, no network."""
from abnn_mmseg.export.gallery.writer import GalleryWriter, write_gallery

__all__ = ['GalleryWriter', 'write_gallery']
