"""Cars, vans, trucks and buses, as solids seen from any side."""
from abnn_mmseg.datasets.muad_sketch import ids
from abnn_mmseg.datasets.muad_sketch.dice import mix, tone
from abnn_mmseg.datasets.muad_sketch.sprite import Body, box, wheel

GLASS = (44, 52, 60)
TYRE = (28, 28, 30)


def draw_wheels(body, places, radius, width, hub):
    """Wheels on the seen sides and tyres under the near end."""
    near_end = min(places, key=lambda a: a * body.cos)
    half = width / 2
    body.end([box(b, b + 0.22, 0, 0.45) for b in (-half, half - 0.22)],
             near_end, TYRE, solid=True)
    for b in body.sides(width):
        body.side([wheel((a, radius), radius) for a in places], b, TYRE,
                  solid=True)
        body.side([wheel((a, radius), radius * 0.58) for a in places], b,
                  hub)


def draw_lights(body, a, front, width, height):
    """Head or tail lights on an end, and the plate between them."""
    canvas, spread = body.canvas, 0.36 * width
    colour = (236, 234, 214) if front else (178, 36, 34)
    pair = [box(b - 0.14, b + 0.14, height - 0.09, height + 0.09)
            for b in (-spread, spread)]
    body.end([box(-0.26, 0.26, height - 0.32, height - 0.18)], a,
             (206, 206, 196))
    if not canvas.sky.dark:
        body.end(pair, a, colour)
        return
    label, code, material = canvas.pen
    canvas.pen = (label, code, ids.SHINING)
    body.end(pair, a, colour, solid=True)
    for point in body.world([(a, height, -spread), (a, height, spread)]):
        canvas.glow(point, 0.9 if front else 0.35, colour)
    canvas.pen = (label, code, material)


def seen_end(body, rear, front):
    """Where the end is that the camera sees, and whether it is the front."""
    if body.faces_camera((1, 0, 0), (front, 0.5, 0)):
        return front, True
    return rear, False


def car_profile(dice):
    """Corners (a, y) of a saloon, hatchback, estate, van or pick-up."""
    h = dice.between(0.93, 1.12)
    kind = dice.weighted(dict(saloon=4, hatch=4, tall=3, van=2, pickup=1))
    length, shape = dict(
        saloon=(4.5, [(-.32, .95), (-.2, 1.42), (.1, 1.44), (.25, .95)]),
        hatch=(3.9, [(-.47, 1.0), (-.36, 1.44), (.1, 1.48), (.27, .96)]),
        tall=(4.5, [(-.48, 1.1), (-.42, 1.7), (.12, 1.74), (.25, 1.12)]),
        van=(4.9, [(-.49, 1.2), (-.47, 1.95), (.2, 1.98), (.36, 1.15)]),
        pickup=(5.1, [(-.08, 1.0), (-.05, 1.7), (.15, 1.72), (.27, 1.08)]),
    )[kind]
    length *= dice.between(0.93, 1.07)
    nose = shape[-1][1]
    points = [(-.5, .28), (-.5, nose * 0.92), *shape, (.5, nose * 0.78),
              (.5, .28)]
    return [(a * length, y * h if y > 0.3 else y) for a, y in points]


def draw_car(canvas, x, z, yaw):
    """Draw a car."""
    dice = canvas.dice
    canvas.use(ids.CAR, z, ids.PAINT)
    body, profile = Body(canvas, x, z, yaw), car_profile(dice)
    width, paint = dice.between(1.65, 1.9), dice.any_colour()
    glass = mix(GLASS, canvas.sky.zenith, dice.between(0.1, 0.5))
    rear, front = profile[0][0], profile[-1][0]
    draw_wheels(body, [rear * 0.62, front * 0.62], 0.32, width,
                dice.tint((132, 132, 134)))
    body.hull(profile, width, paint, {2: glass, 4: glass})
    for b in body.sides(width):
        draw_doors(body, profile, b, paint, glass)
    a, is_front = seen_end(body, rear, front)
    body.end([box(-width / 2, width / 2, 0.28, 0.45)], a, tone(paint, 0.45))
    draw_lights(body, a, is_front, width, 0.7)


def draw_doors(body, profile, b, paint, glass):
    """Draw the windows and doors on the side of a car."""
    low_rear, rear, front, low_front = profile[2:6]
    belt, top = max(low_rear[1], low_front[1]), front[1] - 0.12
    pillar = (rear[0] + front[0]) / 2
    panes = [[(low_rear[0] + 0.25, belt), (rear[0] + 0.18, top),
              (pillar - 0.05, top), (pillar - 0.05, belt)],
             [(pillar + 0.05, belt), (pillar + 0.05, top),
              (front[0] - 0.05, top), (low_front[0] - 0.3, belt)]]
    body.side(panes, b, glass)
    body.side([box(profile[0][0], profile[-1][0], 0.28, 0.4)], b,
              tone(paint, 0.55))


def slab(rear, front, low, high):
    """The profile of a box."""
    return [(rear, low), (rear, high), (front, high), (front, low)]


def draw_truck(canvas, x, z, yaw):
    """A cab with a box, a tank, a tipper or an empty bed behind it."""
    dice = canvas.dice
    canvas.use(ids.TRUCK, z, ids.PAINT)
    body = Body(canvas, x, z, yaw)
    half, high = dice.between(2.7, 5), dice.between(2.5, 3.7)
    width, paint = dice.between(2.1, 2.5), dice.any_colour()
    split = half - dice.between(1.6, 2.2)
    load = dice.any_colour() if dice.chance(0.6) else (206, 204, 198)
    top = dice.pick([high, high, high, dice.between(1.7, 2.2), 2.6, 1.25])
    cab = slab(split + 0.15, half, 0.5, dice.between(2.3, 2.9))
    cab[2] = (half - 0.25, cab[2][1])
    draw_wheels(body, [1 - half, 2.1 - half, half - 1], 0.48, width,
                dice.tint((96, 96, 98)))
    parts = [(slab(-half, split, 0.75, top), load), (cab, paint)]
    if body.cos > 0:  # driving away: the cab is behind the load
        parts.reverse()
    for profile, colour in parts:
        body.hull(profile, width, colour)
        for b in body.sides(width):
            draw_truck_side(body, profile, b, colour, profile is cab)
    draw_truck_end(body, half, top, width, load)


def draw_truck_side(body, profile, b, colour, is_cab):
    """Draw the side of a cab or of a load."""
    (rear, low), (_, high), _, (front, _) = profile
    if is_cab:
        body.side([box(front - 1.2, front - 0.3, high - 0.95, high - 0.25)],
                  b, GLASS)
        return
    dice = body.canvas.dice
    stripe = dice.any_colour() if dice.chance(0.4) else tone(colour, 0.85)
    middle = dice.between(low + 0.2, high - 0.4)
    body.side([box(rear + 0.2, front - 0.2, middle, middle + 0.4)], b, stripe)
    ribs = [rear + (front - rear) * i / 5 for i in range(6)]
    body.side([box(a - 0.03, a + 0.03, low, high) for a in ribs], b,
              tone(colour, 0.8))


def draw_truck_end(body, half, top, width, load):
    """Draw the front or the rear of a truck."""
    a, is_front = seen_end(body, -half, half)
    edge = width / 2
    if is_front:
        body.end([box(.15 - edge, edge - .15, 1.5, 2.2)], a, GLASS)
        body.end([box(-edge * .6, edge * .6, 0.7, 1.2)], a, (40, 40, 42))
    else:
        body.end([box(-0.03, 0.03, 0.8, top)], a, tone(load, 0.6))
        body.end([box(-edge, edge, 0.55, 0.8)], a, (40, 40, 42))
    draw_lights(body, a, is_front, width, 0.78)


def draw_coach(canvas, x, z, yaw, label, length, high):
    """A long box with a row of windows: a bus, or a tram's carriage."""
    dice = canvas.dice
    canvas.use(label, z, ids.PAINT)
    body, half = Body(canvas, x, z, yaw), length / 2
    width, paint = dice.between(2.3, 2.55), dice.any_colour()
    glass = mix(GLASS, canvas.sky.zenith, dice.between(0.1, 0.4))
    if canvas.sky.dark and dice.chance(0.6):
        glass = (196, 186, 150)
    draw_wheels(body, [-half * 0.55, half * 0.6], 0.46, width, (110,) * 3)
    body.hull(slab(-half, half, 0.35, high), width, paint)
    low, top = high * 0.45, high * 0.82
    second = dice.any_colour() if dice.chance(0.5) else tone(paint, 0.8)
    for b in body.sides(width):
        body.side([box(-half, half, 0.35, low * 0.7)], b, second)
        step = dice.between(1.1, 1.7)
        panes = [box(a, a + 0.95, low, top) for a in (
            i * step - half + 0.3 for i in range(int((length - 1) / step)))]
        body.side(panes, b, glass)
    draw_coach_end(body, half, width, (low, top, high), glass)


def draw_coach_end(body, half, width, heights, glass):
    """Draw the front or the rear of a bus or tram."""
    low, top, high = heights
    a, is_front = seen_end(body, -half, half)
    edge = width / 2
    sill = low * (0.9 if is_front else 1.2)
    body.end([box(.2 - edge, edge - .2, sill, top)], a, glass)
    body.end([box(.5 - edge, edge - .5, top + .1, high - .1)], a,
             (224, 160, 60))
    draw_lights(body, a, is_front, width, 0.75)


def draw_bus(canvas, x, z, yaw):
    """Draw a bus."""
    dice = canvas.dice
    draw_coach(canvas, x, z, yaw, ids.BUS, dice.between(6.5, 12),
               dice.between(2.6, 3.4))
