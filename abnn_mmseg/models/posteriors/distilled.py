"""A posterior in one pass: a student's."""
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
from abnn_mmseg.models.students import Student
from abnn_mmseg.uncertainty.scores import NEEDS
from abnn_mmseg.uncertainty.statistics import (
    StreamingStatistics,
    as_classes,
)


@MODELS.register_module()
class DistilledPosterior(Posterior):
    """The student of another posterior, made by ``abnn distill``.

    Its pass predicts the statistics of its teacher, the posterior it was
    distilled from. So all scores are estimates of the teacher's, and so are
    probability and class map of ``prediction='posterior_mean'``, the default.
    ``'base'`` and ``'centre'`` are the original network. They take one pass
    more, unless the student has the design 'head', whose pass is that of the
    original network.

    Args:
        student (str, optional): The student's file.
        **kwargs: See :class:`Posterior`. With several views the predictions
            of the student are averaged.
    """

    takes_members = True
    member_kinds = ('student', )
    is_student = True

    def __init__(self, student: Optional[str] = None, **kwargs) -> None:
        super().__init__(**kwargs)
        self.member_files = None if student is None else [student]
        self.student: Optional[Student] = None

    @property
    def gives_base(self) -> bool:
        """Whether the student's pass is that of the original network."""
        return self.student is not None and self.student.network is None

    def __len__(self) -> int:
        return len(self.views)

    @property
    def noise_settings(self) -> str:
        """The views; all other settings are in the student."""
        if len(self.views) == 1:
            return 'student'
        return f'student, {self.view_settings}'

    def set_members(self, members: list[dict[str, Tensor]]) -> None:
        """Replace the student; an empty list removes it."""
        if len(members) > 1:
            raise ValueError(f'{len(members)} students were given to one '
                             'DistilledPosterior; give one.')
        self.members = members
        self.student = Student.of_state(members[0]) if members else None

    def make_networks(self, forward: Forward) -> Networks:
        """The student's pass."""
        return StudentNetworks(self, forward, self.checked())

    def checked(self) -> Student:
        """The student; raises ValueError if it lacks a score."""
        if self.student is None:
            raise ValueError(
                'DistilledPosterior has no student; make one with `abnn '
                'distill` and write student=FILE in the posterior, or give '
                'the file beside the base checkpoint.')
        for score in self.model.scores:
            if not set(NEEDS[score]) <= set(self.student.statistics):
                known = [s for s, needs in NEEDS.items()
                         if set(needs) <= set(self.student.statistics)]
                raise ValueError(
                    f'the student was not trained for the score {score!r}, '
                    f'only for {", ".join(known)}; take some of these, or '
                    'distil again.')
        return self.student

    def observe(self, statistics: StreamingStatistics,
                outputs: Tensor) -> None:
        """Add the means that the student predicts."""
        student = self.checked()
        for one in outputs:
            statistics.include(student.means(one), student.count)


class StudentNetworks(Networks):
    """A student's pass, once for each view.

    Args:
        posterior (DistilledPosterior): The posterior of the student.
        forward (Callable): The model's deterministic pass.
        student (Student): The student.
    """

    def __init__(self, posterior: DistilledPosterior, forward: Forward,
                 student: Student) -> None:
        super().__init__(forward, len(posterior))
        self.posterior = posterior
        self.student = student
        # Logits of the original network, by window.
        self.seen: list[Tensor] = []

    def chunks(self, numbers: Sequence[int], view: View,
               example: Tensor) -> Iterator[Chunk]:
        """Yield a pass for each number; keep its logits for :meth:`base`."""
        # Device and type: the model may be of double or half precision.
        self.student.to(example)
        for _ in numbers:
            yield partial(self._run, view)

    def _run(self, view: View, images: Tensor) -> Tensor:
        posterior = self.posterior
        features, logits = self.student.watch(
            posterior.model, self.forward, images)
        if (posterior.gives_base and view == View()
                and posterior.precision == 'float32'):
            self.seen.append(logits)
        # The head runs in float32, even if the pass does not.
        logits = as_classes(posterior.model.to_logits(logits).float())
        return self.student(features, logits)[None]

    def base(self) -> Chunk:
        """The kept logits, or a pass if there are none."""
        if not self.seen:
            return self.plain
        windows = iter(self.seen)
        return lambda images: next(windows)[None]
