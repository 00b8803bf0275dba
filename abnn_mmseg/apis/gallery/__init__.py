"""A static page over exported maps: no server, no network."""
from .writer import GalleryWriter, write_gallery

__all__ = ['GalleryWriter', 'write_gallery']
