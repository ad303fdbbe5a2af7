# The image of all components: `switchback controller`, `webhook`, `proxy`. manifests/image-files.json lists its files.
# A test compares the COPY lines with that list. .dockerignore keeps all other files out of the build context.
ARG BASE=node:26-slim
# The C and C++ libraries of Debian, without a shell and a package manager.
ARG RUNTIME=gcr.io/distroless/cc-debian13:nonroot

FROM ${BASE} AS build
# The bill of materials also lists the packages of this stage, which the bundle contains.
ARG BUILDKIT_SBOM_SCAN_STAGE=true
WORKDIR /app
COPY package.json package-lock.json ./
# The image needs no install script of any package.
RUN npm ci --ignore-scripts --no-audit --no-fund && npm cache clean --force
COPY LICENSE ./
COPY tsconfig.json ./
COPY manifests/bundle.ts manifests/image-files.json ./manifests/
COPY certs ./certs
COPY cli ./cli
COPY controller ./controller
COPY doctor ./doctor
COPY extras ./extras
COPY lib ./lib
COPY proxy ./proxy
COPY webhook ./webhook
# A bundle with its chunks needs a third less memory than its source files. CI has already checked the types.
RUN node manifests/bundle.ts --outDir out
# Node is linked to this library, and the runtime lacks it.
RUN cp --dereference /usr/lib/*-linux-gnu/libatomic.so.1 /usr/local/lib/

FROM ${RUNTIME}
COPY --from=build /usr/local/bin/node /usr/local/bin/
COPY --from=build /usr/local/lib/libatomic.so.1 /usr/lib/
WORKDIR /app
ENV NODE_ENV=production
# glibc returns freed memory. Saves 40 MB per proxy, 12 per controller, 30 per webhook under attack.
ENV MALLOC_ARENA_MAX=1 MALLOC_TRIM_THRESHOLD_=524288
COPY --from=build /app/out ./
# With a numeric user, the kubelet can check `runAsNonRoot` without the image's /etc/passwd.
USER 65532:65532
ENTRYPOINT ["node", "cli/main.js"]
