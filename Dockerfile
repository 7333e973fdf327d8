# docker build --target cpu --tag gradcast .           then: docker run --rm -v "$PWD/runs:/gradcast/runs" gradcast run digits
# docker build --target cuda --tag gradcast:cuda .     then: docker run --rm --gpus all ... gradcast:cuda run digits
# Versions are those of constraints.txt, which the tests ran with. Data lie in /gradcast/data, runs in /gradcast/runs.

FROM python:3.11-slim AS source
WORKDIR /source
COPY pyproject.toml setup.py constraints.txt README.md LICENSE ./
COPY src src
# torch brings the Triton that it was built with
RUN grep -v "^triton==" constraints.txt > /constraints.txt

FROM source AS cpu
RUN pip install --no-cache-dir --index-url https://download.pytorch.org/whl/cpu "$(grep "^torch==" /constraints.txt)" \
    && pip install --no-cache-dir --constraint /constraints.txt .
WORKDIR /gradcast
ENTRYPOINT ["gradcast"]

FROM source AS cuda
# Triton compiles its kernels on the machine where they run, with a C compiler
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
RUN pip install --no-cache-dir "$(grep "^torch==" /constraints.txt)" \
    && pip install --no-cache-dir --constraint /constraints.txt .
WORKDIR /gradcast
ENTRYPOINT ["gradcast"]
