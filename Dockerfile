# The image of all components: `switchback controller`, `webhook`, `proxy`. What goes in is listed in manifests/image-files.json;
# a test holds the COPY lines against it, and .dockerignore keeps everything else out of the build context.
FROM node:26-slim AS dependencies
WORKDIR /app
COPY package.json package-lock.json ./
# Without devDependencies nothing has an install script worth running.
RUN npm ci --omit=dev --ignore-scripts --no-audit --no-fund && npm cache clean --force

# Node could run the TypeScript itself, at 30 MB more for each process. Types are checked before, with all files at hand.
FROM node:26-slim AS build
WORKDIR /app
COPY package.json package-lock.json ./
RUN npm ci --ignore-scripts --no-audit --no-fund && npm cache clean --force
COPY tsconfig.json ./
COPY agent ./agent
COPY certs ./certs
COPY cli ./cli
COPY config ./config
COPY controller ./controller
COPY doctor ./doctor
COPY errors ./errors
COPY hostmap ./hostmap
COPY kube ./kube
COPY proxy ./proxy
COPY snapshot ./snapshot
COPY telemetry ./telemetry
COPY uninstall ./uninstall
COPY webhook ./webhook
COPY workloads ./workloads
RUN npx tsc --noEmit false --noCheck --rewriteRelativeImportExtensions --outDir out

FROM node:26-slim
WORKDIR /app
ENV NODE_ENV=production
COPY --from=dependencies /app/node_modules ./node_modules
COPY LICENSE package.json ./
COPY --from=build /app/out ./
# A number, so that `runAsNonRoot` can be checked without a look into the image's /etc/passwd.
USER 65532:65532
ENTRYPOINT ["node", "cli/main.js"]
