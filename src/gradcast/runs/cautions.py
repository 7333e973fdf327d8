"""What a specification leads to that may surprise, said before anything is trained."""

from gradcast.errors import warn
from gradcast.runs.prepared import PreparedRun
from gradcast.specs.spec import Spec
from gradcast.training.schedule_tables import StepsSpec

MANY_TESTS = 10_000_000  # test images that a seed looks at: minutes, at least


def warn_of_surprises(spec: Spec, shared: PreparedRun) -> None:
    """A warning for each, once for all rows."""
    _warn_of_idle_signals(spec, shared)
    _warn_of_single_classes(spec, shared)
    _warn_of_long_evaluations(spec, shared)


def _warn_of_idle_signals(spec: Spec, shared: PreparedRun) -> None:
    """A short stream may end before its signal begins: every row is then the base."""
    for setting in (row.setting for row in spec.rows if row.setting.signals):
        data, batch = shared.data(setting, spec.seeds[:1]), setting.stream.batch
        if setting.plateau is not None:
            what, steps = "an epoch", data.length(0, batch)  # where an epoch's batches count
        elif isinstance(setting.schedule, StepsSpec):
            what, steps = "the stream", data.tasks * setting.schedule.steps
        else:
            what, steps = "the stream", setting.stream.epochs * sum(data.length(t, batch) for t in range(data.tasks))
        if setting.policy.start >= steps:
            warn(
                f"{what} has {steps} steps and policy.start is {setting.policy.start}: no unlabelled image is "
                "used; lower policy.start to see the signal act"
            )
            return


def _warn_of_single_classes(spec: Spec, shared: PreparedRun) -> None:
    """Where the task is known and has one class, every answer is right."""
    for setting in (row.setting for row in spec.rows):
        stream = shared.stream(setting)
        if stream.width == 1 and not stream.same_classes and setting.evaluation.task != "unknown":
            warn(
                "every task has a single class: where the task is known, any network is right in 100 % and the "
                "accuracies say nothing; set evaluation.task=unknown, or raise stream.classes_per_task"
            )
            return


def _warn_of_long_evaluations(spec: Spec, shared: PreparedRun) -> None:
    """Tests grow with the square of the number of tasks, training does not."""
    for setting in (row.setting for row in spec.rows):
        stream = shared.stream(setting)
        tested = len(stream.tasks) * sum(len(task.test) for task in stream.tasks)
        trained = setting.stream.epochs * sum(stream.count(task) for task in range(len(stream.tasks)))
        if tested > MANY_TESTS and tested > 100 * trained:
            warn(
                f"all test images are looked at after each of {len(stream.tasks)} tasks: {tested:,} images a seed, "
                f"beside {trained:,} of training, so that most of the time is spent there (env.json says how much)"
            )
            return
