# For people who want a container. It was not built where the package is
# developed: say so in an issue if a step fails.
#
#     docker build -t abnn .
#     docker run --rm -v "$PWD/work_dirs:/app/work_dirs" abnn demo
FROM python:3.11-slim
RUN apt-get update \
    && apt-get install --no-install-recommends --yes libgl1 libglib2.0-0 \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /abnn
COPY . .
# The tested versions, as `make venv` installs them; torch for the CPU or GPU
# that pip chooses.
RUN pip install --no-cache-dir -c constraints.txt torch==2.13.0 \
    && pip install --no-cache-dir -c constraints.txt '.[onedl,plots]'
WORKDIR /app
ENTRYPOINT ["abnn"]
CMD ["--help"]
