# The image of all components: `switchback controller`, `webhook`, `proxy`. What goes in is listed in manifests/image-files.json;
# a test holds the COPY lines against it, and .dockerignore keeps everything else out of the build context.
# A release names the base by digest: --build-arg BASE=node:26-slim@sha256:...
ARG BASE=node:26-slim

FROM ${BASE} AS build
WORKDIR /app
COPY package.json package-lock.json ./
# No package has an install script that is needed here.
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
# One bundle with its chunks: of memory, a third less than the files it is made of. Types are checked before, with all files at hand.
RUN node manifests/bundle.ts --outDir out

FROM ${BASE}
WORKDIR /app
ENV NODE_ENV=production
COPY --from=build /app/out ./
# A number, so that `runAsNonRoot` can be checked without a look into the image's /etc/passwd.
USER 65532:65532
ENTRYPOINT ["node", "cli/main.js"]
