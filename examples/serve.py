"""Serve maps over HTTP: POST an image to /predict, get its arrays as npz."""
import argparse
import io

import numpy as np
from fastapi import FastAPI, HTTPException, Response, UploadFile
from PIL import Image

from abnn_mmseg.export import ABNNInferencer


def make_app(inferencer: ABNNInferencer) -> FastAPI:
    """Requests run in threads, which share the inferencer."""
    app = FastAPI()

    @app.post('/predict')
    def predict(image: UploadFile) -> Response:
        try:
            [result] = inferencer(Image.open(image.file))
        except (OSError, ValueError) as error:
            raise HTTPException(422, str(error)) from error
        arrays = io.BytesIO()
        np.savez(arrays, prediction=result.prediction, **result.maps)
        return Response(arrays.getvalue(), media_type='application/zip')

    return app


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('config')
    parser.add_argument('checkpoint')
    parser.add_argument('--members', nargs='+')
    parser.add_argument('--port', type=int, default=8000)
    args = parser.parse_args()
    import uvicorn
    uvicorn.run(make_app(ABNNInferencer(
        args.config, args.checkpoint, args.members)), port=args.port)
