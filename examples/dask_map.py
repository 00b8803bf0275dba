"""Map the inferencer over images with Dask, and rank them by uncertainty."""
import argparse

from dask.distributed import Client

from abnn_mmseg.export import ABNNInferencer, Frames


def mean_entropy(frame, inferencer):
    """One row of the table."""
    [result] = inferencer(frame.image)
    return frame.name, float(result.maps['entropy'].mean())


def rank(client, inferencer, source):
    """Images and their mean entropy, the most uncertain first."""
    # Sent to every worker once, not once an image.
    shared = client.scatter(inferencer, broadcast=True)
    rows = client.gather(client.map(
        mean_entropy, Frames(source).files, inferencer=shared, pure=False))
    return sorted(rows, key=lambda row: -row[1])


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('config')
    parser.add_argument('checkpoint')
    parser.add_argument('source')
    parser.add_argument('--scheduler', help='its address (default: local)')
    args = parser.parse_args()
    with Client(args.scheduler) as client:
        for name, value in rank(client, ABNNInferencer(
                args.config, args.checkpoint), args.source):
            print(f'{value:.4f}  {name}')
