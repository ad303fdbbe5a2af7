# The image of all components: `switchback controller`, `webhook`, `proxy`. manifests/image-files.json lists its files.
# A test compares the COPY lines with that list. .dockerignore keeps all other files out of the build context.
# A release pins the base image by digest: --build-arg BASE=node:26-slim@sha256:...
ARG BASE=node:26-slim

FROM ${BASE} AS build
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

FROM ${BASE}
WORKDIR /app
ENV NODE_ENV=production
COPY --from=build /app/out ./
# With a numeric user, the kubelet can check `runAsNonRoot` without the image's /etc/passwd.
USER 65532:65532
ENTRYPOINT ["node", "cli/main.js"]
