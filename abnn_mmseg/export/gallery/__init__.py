"""A static page of exported maps, which needs no server."""
from abnn_mmseg.export.gallery.writer import GalleryWriter, write_gallery

__all__ = ['GalleryWriter', 'write_gallery']
