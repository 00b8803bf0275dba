"""Light and weather: the hour and the sky a scene is seen under."""
import math
from dataclasses import dataclass

from abnn_mmseg.datasets.muad_sketch.dice import mix, tone

HAZE = dict(day=(198, 208, 218), dusk=(214, 170, 140), night=(34, 36, 48))
ZENITH = dict(day=(112, 156, 206), dusk=(96, 104, 146), night=(10, 13, 26))


@dataclass
class Sky:
    """What the weather does to a picture.

    Args:
        hour (str): 'day', 'dusk' or 'night'.
        weather (str): 'clear', 'overcast', 'fog' or 'rain'.
        sun (tuple): Unit vector towards the sun.
        ambient (float): Brightness of a face the sun does not reach.
        direct (float): What the sun adds to a face turned to it.
        shadow (float): How dark a shadow on the ground is, 0 to 1.
        fog (float): Extinction per metre.
        zenith (tuple): Colour of the sky above.
        haze (tuple): Colour of the sky at the horizon, and of fog.
        cloud (tuple): Colour of clouds.
        clouds (float): Cover, 0 to 1.
        gain (tuple): Exposure and colour cast, a factor per channel.
    """
    hour: str
    weather: str
    sun: tuple
    ambient: float
    direct: float
    shadow: float
    fog: float
    zenith: tuple
    haze: tuple
    cloud: tuple
    clouds: float
    gain: tuple

    @property
    def dark(self):
        """Whether lamps, windows and headlights are on."""
        return self.hour == 'night'

    @property
    def exposure(self):
        """Brightness of what shines itself: sky, fog and lamps."""
        return 1 if self.dark else max(0.75, min(1.1, self.gain[1]))

    @property
    def wet(self):
        """Whether it rains."""
        return self.weather == 'rain'

    @classmethod
    def roll(cls, dice):
        """Draw a random time of day and weather."""
        hour = dice.weighted(dict(day=10, dusk=1, night=1))
        weather = dice.weighted(dict(clear=6, overcast=3, fog=1, rain=1))
        clear = weather == 'clear' and hour != 'night'
        direct = dice.between(0.35, 0.6) if clear else 0.12
        grey = sum(HAZE[hour]) / 3
        veil = 0 if clear else dice.between(0.5, 1)
        haze = mix(HAZE[hour], (grey,) * 3, veil)
        zenith = mix(ZENITH[hour], tone((grey,) * 3, 0.9), veil)
        if weather == 'fog':
            zenith = mix(zenith, haze, 0.8)
        fog = dice.between(0.01, 0.025) if weather == 'fog' else (
            dice.between(0.001, 0.004))
        return cls(
            hour, weather, roll_sun(dice, hour), 1 - 0.75 * direct, direct,
            dice.between(0.3, 0.55), fog,
            dice.tint(zenith, 8), dice.tint(haze, 8),
            tone(haze, dice.between(0.75, 1.15)), dice.between(0.1, 0.9),
            roll_gain(dice, hour))


def roll_sun(dice, hour):
    """Draw a random direction of the sun."""
    around = dice.between(0, 2 * math.pi)
    up = dice.between(0.15, 0.35 if hour == 'dusk' else 1.2)
    return (math.cos(up) * math.sin(around), math.sin(up),
            math.cos(up) * math.cos(around))


def roll_gain(dice, hour):
    """Exposure, a warm or cold cast and, at dusk, the evening light."""
    level = dice.between(0.88, 1.1)
    warm = dice.rng.normal(0, 0.025)
    if hour == 'dusk':
        level, warm = level * 0.78, warm + 0.06
    if hour == 'night':
        level, warm = dice.between(0.35, 0.65), warm - 0.05
    return level * (1 + warm), level, level * (1 - warm)
