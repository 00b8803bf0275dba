"""Write the BDD-Anomaly lists for the 10K segmentation part of BDD100K."""
from abnn_mmseg.cli.main import run_command

if __name__ == '__main__':
    run_command('make-bdd-anomaly')
