# podman build -t thpdiag .
# podman run --rm --network none -v ./bundles:/data:ro thpdiag analyze /data/web1.tar.xz
FROM python:3.13-slim AS build
ARG EXTRAS=remote
COPY pyproject.toml constraints.txt README.md LICENSE /src/
COPY thpdiag /src/thpdiag
COPY rules /src/rules
RUN python -m venv /opt/thpdiag \
    && /opt/thpdiag/bin/pip install --no-cache-dir --no-compile -c /src/constraints.txt "/src[$EXTRAS]" \
    && /opt/thpdiag/bin/pip uninstall --yes pip

FROM python:3.13-slim
COPY --from=build /opt/thpdiag /opt/thpdiag
RUN useradd --system --uid 10001 --no-create-home thpdiag && install -d -o 10001 /work
USER 10001
WORKDIR /work
ENV PATH=/opt/thpdiag/bin:$PATH HOME=/work PYTHONDONTWRITEBYTECODE=1
ENTRYPOINT ["thpdiag"]
CMD ["--help"]
