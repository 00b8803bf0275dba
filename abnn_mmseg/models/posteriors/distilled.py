"""A posterior in one pass: the original network and a student's head."""
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Optional

from mmseg.registry import MODELS
from torch import Tensor

from abnn_mmseg.models.posteriors.base import (
    Chunk,
    Forward,
    Networks,
    Posterior,
)
from abnn_mmseg.models.posteriors.views import View
from abnn_mmseg.models.students import StudentHead, as_classes, watch
from abnn_mmseg.uncertainty import StreamingStatistics
from abnn_mmseg.uncertainty.scores import NEEDS


@MODELS.register_module()
class DistilledPosterior(Posterior):
    """The student of another posterior, made by ``abnn distill``.

    One pass of the original network gives its class map, bit for bit
    (``prediction='base'``), and the features from which the student's head
    computes what its teacher, the posterior it was distilled from, would say.
    So all scores are the teacher's, and so are mean probability and class map
    of ``prediction='posterior_mean'``. ``'centre'`` is the original network.

    Args:
        student (str, optional): The student's file.
        **kwargs: See :class:`Posterior`. With several views the student
            answers for each, and its answers are averaged.
    """

    takes_members = True
    member_kinds = ('student', )
    is_student = True
    gives_base = True

    def __init__(self, student: Optional[str] = None, **kwargs) -> None:
        super().__init__(**kwargs)
        self.member_files = None if student is None else [student]
        self.head: Optional[StudentHead] = None

    def __len__(self) -> int:
        return len(self.views)

    @property
    def noise_settings(self) -> str:
        """The views; all else is in the student."""
        if len(self.views) == 1:
            return 'student'
        return 'student, views ' + ' '.join(map(str, self.views))

    def set_members(self, members: list[dict[str, Tensor]]) -> None:
        """Replace the student; none leaves the posterior without one."""
        if len(members) > 1:
            raise ValueError(f'{len(members)} students were given to one '
                             'DistilledPosterior; give one.')
        self.members = members
        self.head = StudentHead.of_state(members[0]) if members else None

    def draws(self, forward: Forward) -> Networks:
        """The original network with the student's head."""
        return StudentNetworks(self, forward, self.student())

    def student(self) -> StudentHead:
        """The student's head; raises if it cannot give a wanted score."""
        if self.head is None:
            raise ValueError(
                'DistilledPosterior has no student; make one with `abnn '
                'distill` and write student=FILE in the posterior, or give '
                'the file beside the base checkpoint.')
        for score in self.model.scores:
            if not set(NEEDS[score]) <= set(self.head.statistics):
                known = [s for s, needs in NEEDS.items()
                         if set(needs) <= set(self.head.statistics)]
                raise ValueError(
                    f'the student was not trained for the score {score!r}, '
                    f'only for {", ".join(known)}; take some of these, or '
                    'distil again.')
        return self.head

    def observe(self, statistics: StreamingStatistics,
                outputs: Tensor) -> None:
        """Take in the means that the student gives."""
        head = self.student()
        for one in outputs:
            statistics.include(head.means(one), head.count)


class StudentNetworks(Networks):
    """The original network with a student's head, once for each view.

    Args:
        posterior (DistilledPosterior): Whose student.
        forward (Callable): The model's deterministic pass.
        head (StudentHead): The student.
    """

    def __init__(self, posterior: DistilledPosterior, forward: Forward,
                 head: StudentHead) -> None:
        super().__init__(forward, len(posterior))
        self.posterior = posterior
        self.head = head
        # Logits of the original network, by window.
        self.seen: list[Tensor] = []

    def chunks(self, numbers: Sequence[int], view: View,
               example: Tensor) -> Iterator[Chunk]:
        """Yield a pass for each number; its logits are kept."""
        self.head.to(example.device)
        for _ in numbers:
            yield partial(self._run, view)

    def _run(self, view: View, images: Tensor) -> Tensor:
        model = self.posterior.model
        features, logits = watch(model, self.forward, images)
        if view == View() and self.posterior.precision == 'float32':
            self.seen.append(logits)
        # In float32 even where the pass was not.
        logits = as_classes(model._to_logits(logits).float())
        return self.head(features, logits)[None]

    def base(self) -> Chunk:
        """The logits that were kept, or a pass if there are none."""
        if not self.seen:
            return self.plain
        windows = iter(self.seen)
        return lambda images: next(windows)[None]
