"""Run several HMC chains, one after the other or in processes."""
import multiprocessing
import queue
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config

from abnn_mmseg.fitting.norm_chain import (
    HMCSettings,
    NormChain,
    check_settings,
)
from abnn_mmseg.utils.checkpoints import read_checkpoint
from abnn_mmseg.utils.console import progress_bar


def run_chains(cfg: Config, base: str, settings: HMCSettings, chains: int,
               folder: Path, jobs: int = 1) -> list[dict]:
    """Run the unfinished chains; return the content of all files.

    Args:
        cfg (Config): See :func:`fitted_config`.
        base (str): The base's checkpoint.
        settings (HMCSettings): Settings of all chains.
        chains (int): Number of chains.
        folder (Path): Folder of the files ``chain_<k>.pth``.
        jobs (int): Chains that run at once, each in its own process.
            Defaults to 1, one after the other in this process.
    """
    paths = [folder / f'chain_{k}.pth' for k in range(chains)]
    every = settings.burn_in + settings.samples
    unfinished = []
    for number, path in enumerate(paths):
        if path.is_file():
            content = read_checkpoint(path)
            check_settings(path, content, settings)
            if len(content['chain']['trace']) >= every:
                continue
        unfinished.append(number)
    arguments = [
        (cfg.to_dict(), base, settings, k, paths[k]) for k in unfinished]
    with progress_bar('HMC', chains * every) as show:
        done = dict.fromkeys(range(chains), every)
        done.update(dict.fromkeys(unfinished, 0))
        runner = (_in_processes if jobs > 1 and len(unfinished) > 1 else
                  _in_turn)
        for number, count in runner(arguments, jobs):
            done[number] = count
            show(sum(done.values()))
    return [read_checkpoint(path) for path in paths]


def _in_turn(arguments: list[tuple], jobs: int
             ) -> Iterator[tuple[int, int]]:
    for chain in arguments:
        counts: list[int] = []
        cfg, *others = chain
        NormChain(Config(cfg), *others).run(counts.append)
        yield chain[3], counts[-1] if counts else 0


def _in_processes(arguments: list[tuple], jobs: int
                  ) -> Iterator[tuple[int, int]]:
    """Yield number of a chain and number of its finished trajectories."""
    context = multiprocessing.get_context('spawn')
    messages: Any = context.Queue()
    waiting = list(arguments)
    running: dict[int, Any] = {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                chain = waiting.pop(0)
                running[chain[3]] = context.Process(
                    target=_work, args=(messages, *chain), daemon=True)
                running[chain[3]].start()
            yield from _listen(messages, running)
    finally:
        for process in running.values():
            process.terminate()


def _listen(messages: Any,
            running: dict[int, Any]) -> Iterator[tuple[int, int]]:
    """Yield the next message; drop processes that have finished."""
    try:
        number, message = messages.get(timeout=1)
    except queue.Empty:
        for number, process in list(running.items()):
            if not process.is_alive():
                if process.exitcode:
                    raise RuntimeError(
                        f'the process of chain {number} ended with code '
                        f'{process.exitcode}, perhaps for lack of memory; '
                        'run it again with fewer --jobs.') from None
                del running[number]
        return
    if isinstance(message, str):
        raise ValueError(message)
    yield number, message


def _work(messages: Any, cfg: dict, base: str, settings: HMCSettings,
          number: int, path: Path) -> None:
    """Run a chain in its own process."""
    # Each process uses one core.
    torch.set_num_threads(1)
    parent: Any = multiprocessing.parent_process()

    def report(count: int) -> None:
        """Send the number of finished trajectories to the parent."""
        if not parent.is_alive():
            # It was killed; the next run continues the chain.
            raise SystemExit(1)
        messages.put((number, count))

    try:
        NormChain(Config(cfg), base, settings, number, path).run(report)
    except (ValueError, OSError, RuntimeError) as error:
        messages.put((number, str(error)))
