"""Short names for the random choices a scene is made of."""


class Dice:
    """Random choices from one generator.

    Args:
        rng (np.random.Generator): Where all randomness comes from, so that a
            scene depends on nothing else.
    """

    def __init__(self, rng):
        self.rng = rng
        self.pool = []

    def draw(self):
        """A number in [0, 1)."""
        if not self.pool:  # one by one, NumPy's draws cost ten times more
            self.pool = self.rng.random(1024).tolist()
        return self.pool.pop()

    def between(self, low, high):
        """A number from a uniform distribution."""
        return low + (high - low) * self.draw()

    def about(self, deviation):
        """A number around 0."""
        return (self.draw() + self.draw() - 1) * 2.45 * deviation

    def chance(self, probability):
        """True with a probability."""
        return self.draw() < probability

    def count(self, low, high):
        """An integer in [low, high]."""
        return low + int(self.draw() * (high - low + 1))

    def sign(self):
        """1 or -1."""
        return 1 if self.draw() < 0.5 else -1

    def pick(self, options):
        """One of several options, all equally likely."""
        return options[int(self.draw() * len(options))]

    def weighted(self, weights):
        """A key of ``weights``, as often as its value says."""
        at = self.draw() * sum(weights.values())
        for key, weight in weights.items():
            if at < weight:
                return key
            at -= weight
        return key

    def tint(self, colour, jitter=18):
        """A colour near ``colour``: brightness moves more than hue."""
        shift, hue = self.about(jitter), jitter / 3
        red, green, blue = colour
        return clip(red + shift + self.about(hue), green + shift,
                    blue + shift + self.about(hue))

    def any_colour(self):
        """Paint or cloth: mostly vivid, sometimes a grey."""
        grey = self.between(15, 235)
        spread = 12 if self.chance(0.3) else 70
        return clip(grey + self.about(spread), grey + self.about(spread),
                    grey + self.about(spread))


def clip(red, green, blue):
    """A colour in the range that shading and noise need."""
    return (min(max(red, 4), 250), min(max(green, 4), 250),
            min(max(blue, 4), 250))


def tone(colour, factor):
    """``colour`` made brighter (> 1) or darker (< 1)."""
    red, green, blue = colour
    return clip(red * factor, green * factor, blue * factor)


def mix(first, second, share):
    """``first`` with a ``share`` of ``second`` in it."""
    return tuple(a + (b - a) * share for a, b in zip(first, second))
