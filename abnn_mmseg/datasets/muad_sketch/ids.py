"""MUAD's raw ids and the materials that textures are chosen by."""
(ROAD, SIDEWALK, BUILDING, WALL, FENCE, POLE, LIGHT, SIGN, VEGETATION,
 TERRAIN, SKY, PERSON, RIDER, CAR, TRUCK, BUS, TRAIN, MOTORCYCLE, BICYCLE,
 ANIMAL, OBJECT) = range(21)
VOID = 255

NAMES = ('road', 'sidewalk', 'building', 'wall', 'fence', 'pole',
         'traffic light', 'traffic sign', 'vegetation', 'terrain', 'sky',
         'person', 'rider', 'car', 'truck', 'bus', 'train', 'motorcycle',
         'bicycle', 'animal', 'garbage bag, food stand, trash can')
OOD_IDS = (RIDER, TRAIN, MOTORCYCLE, BICYCLE, ANIMAL, OBJECT)

# SHINING is lit from within: night does not darken it.
(AIR, ASPHALT, PAVING, GRASS, PLASTER, BRICK, LEAF, PAINT, CLOTH,
 SHINING) = range(10)
