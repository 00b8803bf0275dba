"""Several chains over the norms of a network, each in its process."""
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
    """Run chains, or what is left of them; the content of their files.

    Args:
        cfg (Config): Of :func:`fitted_config`.
        base (str): The base's checkpoint.
        settings (HMCSettings): Of all chains.
        chains (int): How many.
        folder (Path): Where ``chain_<k>.pth`` lie.
        jobs (int): Chains that run at once, each in a process of its own. 1
            runs one after the other in this process.
    """
    paths = [folder / f'chain_{k}.pth' for k in range(chains)]
    every = settings.burn_in + settings.samples
    left = []
    for number, path in enumerate(paths):
        if path.is_file():
            content = read_checkpoint(path)
            check_settings(path, content, settings)
            if len(content['chain']['trace']) >= every:
                continue
        left.append(number)
    arguments = [(cfg.to_dict(), base, settings, k, paths[k]) for k in left]
    with progress_bar('HMC', chains * every) as show:
        done = dict.fromkeys(range(chains), every)
        done.update(dict.fromkeys(left, 0))
        runner = _in_processes if jobs > 1 and len(left) > 1 else _in_turn
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
    """Yields which chain has done how many trajectories."""
    context = multiprocessing.get_context('spawn')
    news: Any = context.Queue()
    waiting = list(arguments)
    running: dict[int, Any] = {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                chain = waiting.pop(0)
                running[chain[3]] = context.Process(
                    target=_work, args=(news, *chain), daemon=True)
                running[chain[3]].start()
            yield from _listen(news, running)
    finally:
        for process in running.values():
            process.terminate()


def _listen(news: Any, running: dict[int, Any]) -> Iterator[tuple[int, int]]:
    """What the processes say for a while; forgets those that finished."""
    try:
        number, said = news.get(timeout=1)
    except queue.Empty:
        for number, process in list(running.items()):
            if not process.is_alive():
                if process.exitcode:
                    raise RuntimeError(
                        f'the process of chain {number} ended with code '
                        f'{process.exitcode}, perhaps for lack of memory; '
                        'run again to go on, with fewer --jobs.') from None
                del running[number]
        return
    if isinstance(said, str):
        raise ValueError(said)
    yield number, said


def _work(news: Any, cfg: dict, base: str, settings: HMCSettings,
          number: int, path: Path) -> None:
    """A chain in a process of its own."""
    # One each: chains share the processor, not a pass.
    torch.set_num_threads(1)
    parent: Any = multiprocessing.parent_process()

    def say(count: int) -> None:
        if not parent.is_alive():
            # It was killed; the chain goes on when it runs again.
            raise SystemExit(1)
        news.put((number, count))

    try:
        NormChain(Config(cfg), base, settings, number, path).run(say)
    except (ValueError, OSError, RuntimeError) as error:
        news.put((number, str(error)))
