{{- define "millwright.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "millwright.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains (include "millwright.name" .) .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "millwright.name" .) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The services of the release: those of mode distributed, or the one of mode embedded. */}}
{{- define "millwright.services" -}}
{{- if eq .Values.mode "embedded" -}}all{{- else -}}watcher provisioner disruptor terminator lifecycle{{- if .Values.console.enabled }} console{{ end -}}{{- if include "millwright.exports" . }} export{{ end -}}{{- end -}}
{{- end -}}

{{- define "millwright.selectorLabels" -}}
app.kubernetes.io/name: {{ include "millwright.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with .service }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end -}}

{{- define "millwright.labels" -}}
{{ include "millwright.selectorLabels" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- with .root.Values.additionalLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* metadata of an object: dict root, service, name; extra is a map of further annotations. */}}
{{- define "millwright.metadata" -}}
name: {{ .name }}
labels:
  {{- include "millwright.labels" . | nindent 2 }}
{{- with merge (dict) (.extra | default dict) (.root.Values.additionalAnnotations | default dict) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Name of what belongs to one service: dict root, service. */}}
{{- define "millwright.object" -}}
{{- if eq .service "all" -}}
{{- include "millwright.fullname" .root -}}
{{- else -}}
{{- printf "%s-%s" (include "millwright.fullname" .root) .service -}}
{{- end -}}
{{- end -}}

{{- define "millwright.serviceAccountName" -}}
{{- $base := .root.Values.serviceAccount.name | default (include "millwright.fullname" .root) -}}
{{- $own := (index .root.Values.services .service | default dict).serviceAccountName -}}
{{- if $own -}}{{ $own }}
{{- else if eq .service "all" -}}{{ $base }}
{{- else -}}{{ printf "%s-%s" $base .service }}
{{- end -}}
{{- end -}}

{{- define "millwright.image" -}}
{{- $i := .Values.controller.image -}}
{{- if $i.digest -}}
{{- printf "%s@%s" $i.repository $i.digest -}}
{{- else -}}
{{- printf "%s:%s" $i.repository ($i.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/* One variable, left out if the value is empty, zero or false: dict name, value. */}}
{{- define "millwright.variable" -}}
{{- if .value }}
- name: {{ .name }}
  value: {{ .value | toString | quote }}
{{- end }}
{{- end -}}

{{- define "millwright.featureGates" -}}
{{- $gates := list -}}
{{- range $name, $on := .Values.settings.featureGates -}}
{{- if not (kindIs "invalid" $on) -}}
{{- $gates = append $gates (printf "%s%s=%t" (substr 0 1 $name | upper) (substr 1 -1 $name) $on) -}}
{{- end -}}
{{- end -}}
{{- join "," $gates -}}
{{- end -}}

{{/* What a process needs to serve its metrics to those alone who may get them: variables, a volume and its mount. */}}
{{- define "millwright.secureMetricsEnv" -}}
{{- if .Values.controller.metrics.secure }}
- name: METRICS_AUTHORIZATION
  value: "true"
{{- if .Values.controller.metrics.tlsSecretName }}
- name: METRICS_TLS_CERT_FILE
  value: /etc/millwright/metrics/tls.crt
- name: METRICS_TLS_KEY_FILE
  value: /etc/millwright/metrics/tls.key
{{- end }}
{{- end }}
{{- end -}}

{{- define "millwright.secureMetricsVolume" -}}
{{- if and .Values.controller.metrics.secure .Values.controller.metrics.tlsSecretName }}
- name: metrics
  secret: {secretName: {{ .Values.controller.metrics.tlsSecretName }}, defaultMode: 0440}
{{- end }}
{{- end -}}

{{- define "millwright.secureMetricsMount" -}}
{{- if and .Values.controller.metrics.secure .Values.controller.metrics.tlsSecretName }}
- {name: metrics, mountPath: /etc/millwright/metrics, readOnly: true}
{{- end }}
{{- end -}}

{{/* One variable of a number, left out if the value is empty, but not if it is zero: dict name, value. */}}
{{- define "millwright.number" -}}
{{- if not (kindIs "invalid" .value) }}
{{- include "millwright.variable" (dict "name" .name "value" (toString .value)) }}
{{- end }}
{{- end -}}

{{/*
A port of a service that has none but for itself: dict root, service, port. On the node's network each service has ports of its own,
by two higher than those of the one before it, so that several of them fit on one node.
*/}}
{{- define "millwright.port" -}}
{{- $port := int .port -}}
{{- if .root.Values.hostNetwork -}}
{{- range $i, $service := append (splitList " " (include "millwright.services" .root)) "webhook" -}}
{{- if eq $service $.service -}}{{- $port = add $port (mul 2 $i) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- $port -}}
{{- end -}}

{{/* The variables and the ports of metrics and probes: dict root, service. */}}
{{- define "millwright.portEnv" -}}
{{- $c := .root.Values.controller -}}
- name: METRICS_PORT
  value: {{ include "millwright.port" (merge (dict "port" $c.metrics.port) .) | quote }}
- name: HEALTH_PROBE_PORT
  value: {{ include "millwright.port" (merge (dict "port" $c.healthProbe.port) .) | quote }}
{{- end -}}

{{- define "millwright.ports" -}}
{{- $c := .root.Values.controller -}}
- {name: http-metrics, containerPort: {{ include "millwright.port" (merge (dict "port" $c.metrics.port) .) }}, protocol: TCP}
- {name: http, containerPort: {{ include "millwright.port" (merge (dict "port" $c.healthProbe.port) .) }}, protocol: TCP}
{{- end -}}

{{/* The environment of a container of the services: dict root, service. */}}
{{- define "millwright.env" -}}
{{- $v := .root.Values -}}
{{- $s := $v.settings -}}
- name: IDENTITY
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: LEADER_ELECTION_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
- name: MEMORY_LIMIT
  valueFrom:
    resourceFieldRef:
      containerName: {{ $v.controller.containerName }}
      divisor: "0"
      resource: limits.memory
- name: CLUSTER_NAME
  value: {{ required "settings.clusterName is required: the name of the EKS cluster" $s.clusterName | quote }}
{{ include "millwright.portEnv" . }}
{{- include "millwright.secureMetricsEnv" .root }}
{{- include "millwright.variable" (dict "name" "METRICS_COMPAT" "value" $v.controller.metrics.compat) }}
{{- include "millwright.variable" (dict "name" "POD_METRICS" "value" $v.controller.metrics.pods) }}
{{- include "millwright.variable" (dict "name" "OBJECT_METRICS" "value" $v.controller.metrics.objects) }}
{{- if $v.controller.profiling.enabled }}
- name: ENABLE_PROFILING
  value: "true"
- name: PROFILING_ADDRESS
  value: {{ printf "127.0.0.1:%s" (include "millwright.port" (merge (dict "port" $v.controller.profiling.port) .)) | quote }}
{{- end }}
{{- include "millwright.variable" (dict "name" "LOG_LEVEL" "value" $v.logLevel) }}
{{- include "millwright.variable" (dict "name" "CLUSTER_ENDPOINT" "value" $s.clusterEndpoint) }}
{{- include "millwright.variable" (dict "name" "CLUSTER_CA_BUNDLE" "value" $s.clusterCABundle) }}
{{- include "millwright.variable" (dict "name" "MODE" "value" $s.mode) }}
{{- include "millwright.variable" (dict "name" "BATCH_MAX_DURATION" "value" $s.batchMaxDuration) }}
{{- include "millwright.variable" (dict "name" "BATCH_IDLE_DURATION" "value" $s.batchIdleDuration) }}
{{- include "millwright.variable" (dict "name" "PREFERENCE_POLICY" "value" $s.preferencePolicy) }}
{{- include "millwright.variable" (dict "name" "MIN_VALUES_POLICY" "value" $s.minValuesPolicy) }}
{{- include "millwright.variable" (dict "name" "ISOLATED_VPC" "value" $s.isolatedVPC) }}
{{- include "millwright.variable" (dict "name" "EKS_CONTROL_PLANE" "value" $s.eksControlPlane) }}
{{- include "millwright.variable" (dict "name" "ENABLE_ZONAL_SHIFT" "value" $s.enableZonalShift) }}
{{- include "millwright.number" (dict "name" "VM_MEMORY_OVERHEAD_PERCENT" "value" $s.vmMemoryOverheadPercent) }}
{{- include "millwright.variable" (dict "name" "RESERVED_ENIS" "value" $s.reservedENIs) }}
{{- include "millwright.variable" (dict "name" "DISABLE_DRY_RUN" "value" $s.disableDryRun) }}
{{- include "millwright.number" (dict "name" "NODE_COST" "value" $s.nodeCost) }}
{{- include "millwright.number" (dict "name" "EVICTION_COST" "value" $s.evictionCost) }}
{{- include "millwright.variable" (dict "name" "EVICTION_HORIZON" "value" $s.evictionHorizon) }}
{{- include "millwright.number" (dict "name" "CONSOLIDATION_PATIENCE" "value" $s.consolidationPatience) }}
- name: PLACEMENT_HINTS
  value: {{ $s.placementHints | quote }}
{{- if $v.surge.enabled }}
- name: SURGE_PAST_BUDGETS
  value: "true"
{{- end }}
{{- include "millwright.variable" (dict "name" "LAUNCH_TIMEOUT" "value" $s.launchTimeout) }}
{{- include "millwright.variable" (dict "name" "REGISTRATION_TIMEOUT" "value" $s.registrationTimeout) }}
{{- include "millwright.variable" (dict "name" "LOG_RETENTION" "value" $s.logRetention) }}
{{- if include "millwright.signs" . }}
- name: LOG_SIGNING_KEY_FILE
  value: /etc/millwright/log-signing/key.pem
{{- end }}
{{- if has .service (list "all" "lifecycle") }}
{{- include "millwright.variable" (dict "name" "LOG_SIGNING_KMS_KEY_ID" "value" $v.logSigning.kmsKeyID) }}
{{- end }}
{{- if has .service (list "all" "lifecycle" "console" "export") }}
{{- include "millwright.variable" (dict "name" "ARCHIVE_DIR" "value" $v.archive.location) }}
{{- end }}
{{- include "millwright.variable" (dict "name" "INTERRUPTION_QUEUE" "value" $s.interruptionQueue) }}
{{- include "millwright.variable" (dict "name" "REBALANCE_RECOMMENDATION" "value" $s.rebalanceRecommendation) }}
{{- include "millwright.variable" (dict "name" "FEATURE_GATES" "value" (include "millwright.featureGates" .root)) }}
{{- if eq .service "all" }}
- name: DATA_DIR
  value: /data
{{- else }}
{{- $full := include "millwright.fullname" .root }}
- name: ETCD_ENDPOINTS
  value: {{ include "millwright.etcdEndpoints" .root | quote }}
{{- $streams := ne .service "export" }}
{{- if and $streams (include "millwright.ownNATS" .root) }}
- name: NATS_PASSWORD
  valueFrom:
    secretKeyRef:
      name: {{ $full }}-nats-users
      key: {{ eq .service "watcher" | ternary "watcher" "reader" }}
{{- end }}
{{- if $streams }}
- name: NATS_URL
  {{- with include "millwright.natsURLSecret" . }}
  valueFrom:
    secretKeyRef: {name: {{ . }}, key: url}
  {{- else }}
  value: {{ include "millwright.natsURL" . | quote }}
  {{- end }}
{{- end }}
{{- include "millwright.variable" (dict "name" "NATS_REPLICAS" "value" $v.nats.replicas) }}
{{- include "millwright.variable" (dict "name" "ALLOW_PLAINTEXT" "value" $v.allowPlaintext) }}
{{- range $server := $streams | ternary (list "ETCD" "NATS") (list "ETCD") }}
{{- if include (eq $server "ETCD" | ternary "millwright.ownEtcd" "millwright.ownNATS") $.root }}
{{- range $file, $key := dict "CA" "ca.crt" "CERT" "tls.crt" "KEY" "tls.key" }}
- name: {{ $server }}_{{ $file }}_FILE
  value: /etc/millwright/client/{{ $key }}
{{- end }}
{{- end }}
{{- end }}
{{- if $v.etcd.tlsSecretName }}
- name: ETCD_CA_FILE
  value: /etc/millwright/etcd/ca.crt
- name: ETCD_CERT_FILE
  value: /etc/millwright/etcd/tls.crt
- name: ETCD_KEY_FILE
  value: /etc/millwright/etcd/tls.key
{{- end }}
{{- if $v.etcd.username }}
- name: ETCD_USERNAME
  value: {{ $v.etcd.username | quote }}
- name: ETCD_PASSWORD_FILE
  value: /etc/millwright/etcd-password/password
{{- end }}
{{- if and $streams $v.nats.tlsSecretName }}
- name: NATS_CA_FILE
  value: /etc/millwright/nats/ca.crt
{{- if $v.nats.clientCertificate }}
- name: NATS_CERT_FILE
  value: /etc/millwright/nats/tls.crt
- name: NATS_KEY_FILE
  value: /etc/millwright/nats/tls.key
{{- end }}
{{- end }}
{{- if include "millwright.natsCredentials" . }}
- name: NATS_CREDENTIALS_FILE
  value: /etc/millwright/nats-credentials/nats.creds
{{- end }}
{{- end }}
{{- if include "millwright.hasConsole" . }}
{{ include "millwright.consoleEnv" . }}
{{- end }}
{{- if include "millwright.hasExport" . }}
{{- include "millwright.exportEnv" . }}
{{- end }}
{{- with $v.controller.env }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The variables of the console, in a container that has it: dict root, service. */}}
{{- define "millwright.consoleEnv" -}}
{{- $c := .root.Values.console -}}
{{- $service := printf "%s-console" (include "millwright.fullname" .root) -}}
{{- $namespace := .root.Release.Namespace -}}
- name: CONSOLE_ADDRESS
  value: {{ printf ":%d" (int $c.port) | quote }}
- name: CONSOLE_TRUST_CONFIGMAP
  value: {{ printf "%s/%s" $namespace $service }}
{{- if $c.proxy.caSecretName }}
- name: CONSOLE_PROXY_CA_FILE
  value: /etc/millwright/console-proxy/ca.crt
{{- include "millwright.variable" (dict "name" "CONSOLE_PROXY_NAMES" "value" (join "," $c.proxy.names)) }}
{{- include "millwright.variable" (dict "name" "CONSOLE_PROXY_USER_HEADER" "value" $c.proxy.userHeader) }}
{{- include "millwright.variable" (dict "name" "CONSOLE_PROXY_GROUPS_HEADER" "value" $c.proxy.groupsHeader) }}
{{- include "millwright.variable" (dict "name" "CONSOLE_PROXY_PREFIX" "value" $c.proxy.prefix) }}
{{- end }}
{{- include "millwright.variable" (dict "name" "CONSOLE_TEAM_LABEL" "value" $c.teamLabel) }}
{{- if $c.tlsSecretName }}
- name: CONSOLE_TLS_CERT_FILE
  value: /etc/millwright/console/tls.crt
- name: CONSOLE_TLS_KEY_FILE
  value: /etc/millwright/console/tls.key
{{- else }}
- name: CONSOLE_NAMES
  value: {{ concat (list $service (printf "%s.%s" $service $namespace) (printf "%s.%s.svc" $service $namespace)) $c.names | join "," | quote }}
{{- end }}
{{- end -}}

{{/* Not empty if what is recorded is handed to others. */}}
{{- define "millwright.exports" -}}
{{- if or .Values.export.url .Values.export.webhookSecretName .Values.export.traces -}}true{{- end -}}
{{- end -}}

{{/* Not empty if the container of a service has the export: dict root, service. */}}
{{- define "millwright.hasExport" -}}
{{- if and (include "millwright.exports" .root) (or (eq .service "all") (eq .service "export")) -}}true{{- end -}}
{{- end -}}

{{/* The variables of the export, in a container that has it: dict root, service. */}}
{{- define "millwright.exportEnv" -}}
{{- $x := .root.Values.export -}}
{{- include "millwright.variable" (dict "name" "EXPORT_CLOUDEVENTS_URL" "value" $x.url) }}
{{- include "millwright.variable" (dict "name" "EXPORT_CLOUDEVENTS_MODE" "value" $x.mode) }}
{{- include "millwright.variable" (dict "name" "EXPORT_KINDS" "value" (join "," $x.kinds)) }}
{{- include "millwright.variable" (dict "name" "EXPORT_WEBHOOK_KINDS" "value" (join "," $x.webhookKinds)) }}
{{- include "millwright.variable" (dict "name" "EXPORT_TRACES" "value" $x.traces) }}
{{- include "millwright.variable" (dict "name" "EXPORT_FROM" "value" $x.from) }}
{{- include "millwright.variable" (dict "name" "EXPORT_ALLOW_PLAINTEXT" "value" $x.allowPlaintext) }}
{{- if $x.headersSecretName }}
- name: EXPORT_HEADERS_FILE
  value: /etc/millwright/export/headers
{{- end }}
{{- if $x.webhookSecretName }}
- name: EXPORT_WEBHOOK_URL_FILE
  value: /etc/millwright/export-webhook/url
- name: EXPORT_WEBHOOK_TEMPLATE
  value: /etc/millwright/export-webhook/template
{{- end }}
{{- if $x.caSecretName }}
- name: EXPORT_CA_FILE
  value: /etc/millwright/export-ca/ca.crt
{{- end }}
{{- with $x.env }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Not empty if a service signs the log: dict root, service. */}}
{{- define "millwright.signs" -}}
{{- if and .root.Values.logSigning.secretName (or (eq .service "all") (eq .service "lifecycle")) -}}true{{- end -}}
{{- end -}}

{{/* Not empty if the container of a service has the console: dict root, service. */}}
{{- define "millwright.hasConsole" -}}
{{- if and .root.Values.console.enabled (or (eq .service "all") (eq .service "console")) -}}true{{- end -}}
{{- end -}}

{{/* Name of the Secret with a service's NATS credentials; only the watcher may publish: dict root, service. */}}
{{- define "millwright.natsCredentials" -}}
{{- $n := .root.Values.nats -}}
{{- if eq .service "watcher" -}}{{ $n.writerCredentialsSecretName }}{{- else if ne .service "export" -}}{{ $n.readerCredentialsSecretName }}{{- end -}}
{{- end -}}

{{/* Name of the Secret with the URL, and in it the user and password, of a NATS that is not the chart's; empty: nats.url is for all. Only the
watcher's user may publish: dict root, service. */}}
{{- define "millwright.natsURLSecret" -}}
{{- $n := .root.Values.nats -}}
{{- $own := eq .service "watcher" | ternary $n.writerURLSecretName $n.readerURLSecretName -}}
{{- if or $own $n.url -}}
{{- $own -}}
{{- else if or $n.writerURLSecretName $n.readerURLSecretName -}}
{{- fail "nats.writerURLSecretName and nats.readerURLSecretName go together, unless nats.url is there for who has none" -}}
{{- end -}}
{{- end -}}

{{- define "millwright.containerSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
readOnlyRootFilesystem: true
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
{{- with .Values.controller.securityContext.seccompProfile }}
seccompProfile:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.controller.securityContext.appArmorProfile }}
appArmorProfile:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.controller.securityContext.seLinuxOptions }}
seLinuxOptions:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Where the pods of a service may run: dict root, service. */}}
{{- define "millwright.placement" -}}
{{- $v := .root.Values -}}
{{- $selector := dict "matchLabels" (include "millwright.selectorLabels" . | fromYaml) -}}
{{- with $v.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $v.affinity }}
{{- $affinity := deepCopy . }}
{{- range (($affinity.podAntiAffinity | default dict).requiredDuringSchedulingIgnoredDuringExecution) }}
{{- if not (hasKey . "labelSelector") }}{{- $_ := set . "labelSelector" $selector }}{{- end }}
{{- end }}
affinity:
  {{- toYaml $affinity | nindent 2 }}
{{- end }}
{{- with $v.topologySpreadConstraints }}
topologySpreadConstraints:
{{- range deepCopy . }}
{{- if not (hasKey . "labelSelector") }}{{- $_ := set . "labelSelector" $selector }}{{- end }}
  - {{- toYaml . | nindent 4 }}
{{- end }}
{{- end }}
{{- with $v.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "millwright.volumes" -}}
{{- $v := .root.Values -}}
- name: tmp
  emptyDir: {}
{{- include "millwright.secureMetricsVolume" .root }}
{{- if ne .service "all" }}
{{- if or (include "millwright.ownEtcd" .root) (include "millwright.ownNATS" .root) }}
- name: client
  secret: {secretName: {{ include "millwright.fullname" .root }}-client-{{ .service }}, defaultMode: 0440}
{{- end }}
{{- with $v.etcd.tlsSecretName }}
- name: etcd
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}
{{- if $v.etcd.username }}
- name: etcd-password
  secret: {secretName: {{ required "etcd.passwordSecretName is required with etcd.username" $v.etcd.passwordSecretName }}, defaultMode: 0440}
{{- end }}
{{- if and $v.nats.tlsSecretName (ne .service "export") }}
- name: nats
  secret: {secretName: {{ $v.nats.tlsSecretName }}, defaultMode: 0440}
{{- end }}
{{- with include "millwright.natsCredentials" . }}
- name: nats-credentials
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}
{{- end }}
{{- if include "millwright.signs" . }}
- name: log-signing
  secret: {secretName: {{ $v.logSigning.secretName }}, defaultMode: 0440}
{{- end }}
{{- if and (include "millwright.hasConsole" .) $v.console.proxy.caSecretName }}
- name: console-proxy
  secret: {secretName: {{ $v.console.proxy.caSecretName }}, defaultMode: 0440, items: [{key: ca.crt, path: ca.crt}]}
{{- end }}
{{- if and (include "millwright.hasConsole" .) $v.console.tlsSecretName }}
- name: console
  secret: {secretName: {{ $v.console.tlsSecretName }}, defaultMode: 0440}
{{- end }}
{{- if include "millwright.hasExport" . }}
{{- range $name, $secret := dict "export" $v.export.headersSecretName "export-webhook" $v.export.webhookSecretName "export-ca" $v.export.caSecretName }}
{{- if $secret }}
- name: {{ $name }}
  secret: {secretName: {{ $secret }}, defaultMode: 0440}
{{- end }}
{{- end }}
{{- end }}
{{- with $v.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "millwright.mounts" -}}
{{- $v := .root.Values -}}
- {name: tmp, mountPath: /tmp}
{{- include "millwright.secureMetricsMount" .root }}
{{- if eq .service "all" }}
- {name: data, mountPath: /data}
{{- else }}
{{- if or (include "millwright.ownEtcd" .root) (include "millwright.ownNATS" .root) }}
- {name: client, mountPath: /etc/millwright/client, readOnly: true}
{{- end }}
{{- if $v.etcd.tlsSecretName }}
- {name: etcd, mountPath: /etc/millwright/etcd, readOnly: true}
{{- end }}
{{- if $v.etcd.username }}
- {name: etcd-password, mountPath: /etc/millwright/etcd-password, readOnly: true}
{{- end }}
{{- if and $v.nats.tlsSecretName (ne .service "export") }}
- {name: nats, mountPath: /etc/millwright/nats, readOnly: true}
{{- end }}
{{- if include "millwright.natsCredentials" . }}
- {name: nats-credentials, mountPath: /etc/millwright/nats-credentials, readOnly: true}
{{- end }}
{{- end }}
{{- if include "millwright.signs" . }}
- {name: log-signing, mountPath: /etc/millwright/log-signing, readOnly: true}
{{- end }}
{{- if and (include "millwright.hasConsole" .) $v.console.proxy.caSecretName }}
- {name: console-proxy, mountPath: /etc/millwright/console-proxy, readOnly: true}
{{- end }}
{{- if and (include "millwright.hasConsole" .) $v.console.tlsSecretName }}
- {name: console, mountPath: /etc/millwright/console, readOnly: true}
{{- end }}
{{- if include "millwright.hasExport" . }}
{{- range $name, $secret := dict "export" $v.export.headersSecretName "export-webhook" $v.export.webhookSecretName "export-ca" $v.export.caSecretName }}
{{- if $secret }}
- {name: {{ $name }}, mountPath: /etc/millwright/{{ $name }}, readOnly: true}
{{- end }}
{{- end }}
{{- end }}
{{- with $v.controller.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The sidecars, each with the mounts that all of them get besides its own. */}}
{{- define "millwright.sidecars" -}}
{{- with .Values.controller.sidecarContainer -}}
{{- $all := list -}}
{{- range kindIs "map" . | ternary (list .) . -}}
{{- $mounts := concat (.volumeMounts | default list) ($.Values.controller.sidecarVolumeMounts | default list) -}}
{{- $all = append $all (empty $mounts | ternary . (merge (dict "volumeMounts" $mounts) .)) -}}
{{- end -}}
{{- toYaml $all -}}
{{- end -}}
{{- end -}}

{{- define "millwright.podSecurityContext" -}}
{{- $base := dict "runAsNonRoot" true "seccompProfile" (dict "type" "RuntimeDefault") -}}
{{- toYaml (mergeOverwrite $base (.Values.podSecurityContext | default dict)) -}}
{{- end -}}

{{/*
What a pod sees of the network. On the node's network ClusterFirst means what Default does, so that the chart's own etcd and NATS
would not be found.
*/}}
{{- define "millwright.network" -}}
{{- if .Values.hostNetwork -}}
hostNetwork: true
{{ end -}}
dnsPolicy: {{ and .Values.hostNetwork (eq .Values.dnsPolicy "ClusterFirst") | ternary "ClusterFirstWithHostNet" .Values.dnsPolicy }}
{{- with .Values.dnsConfig }}
dnsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The scheduler of pods of the chart that are not of a service, if it is another than the default. */}}
{{- define "millwright.scheduler" -}}
{{- if ne (.Values.schedulerName | default "default-scheduler") "default-scheduler" -}}
schedulerName: {{ .Values.schedulerName }}
{{- end -}}
{{- end -}}

{{/* The pod template of a service: dict root, service. */}}
{{- define "millwright.pod" -}}
{{- $v := .root.Values -}}
{{- $own := index $v.services .service | default dict -}}
metadata:
  labels:
    {{- include "millwright.selectorLabels" . | nindent 4 }}
    {{- with merge (dict) ($v.podLabels | default dict) ($v.additionalLabels | default dict) }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with $v.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "millwright.serviceAccountName" . }}
  {{- if and (eq .service "export") (not $v.controller.metrics.secure) }}
  # It does not ask the API server.
  automountServiceAccountToken: false
  {{- end }}
  {{- with $v.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    {{- include "millwright.podSecurityContext" .root | nindent 4 }}
  {{- with $v.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  terminationGracePeriodSeconds: {{ $v.terminationGracePeriodSeconds | default (eq .service "all" | ternary 60 30) }}
  {{- include "millwright.network" .root | nindent 2 }}
  schedulerName: {{ $v.schedulerName }}
  {{- with $v.initContainers }}
  initContainers:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: {{ $v.controller.containerName }}
      image: {{ include "millwright.image" .root }}
      imagePullPolicy: {{ $v.imagePullPolicy }}
      args: [{{ .service }}{{ if and (eq .service "all") (not $v.console.enabled) }}, --console-address={{ end }}]
      securityContext:
        {{- include "millwright.containerSecurityContext" .root | nindent 8 }}
      env:
        {{- include "millwright.env" . | nindent 8 }}
      {{- with $v.controller.envFrom }}
      envFrom:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      ports:
        {{- include "millwright.ports" . | nindent 8 }}
        {{- if include "millwright.hasConsole" . }}
        - {name: https-console, containerPort: {{ $v.console.port }}, protocol: TCP}
        {{- end }}
      # The log and the stream are read before the process can answer that it is ready; reading a long log takes a while.
      startupProbe:
        httpGet: {path: /healthz, port: http}
        periodSeconds: 5
        timeoutSeconds: 10
        failureThreshold: 60
      livenessProbe:
        httpGet: {path: /healthz, port: http}
        periodSeconds: 10
        timeoutSeconds: 30
      readinessProbe:
        httpGet: {path: /readyz, port: http}
        periodSeconds: 5
        timeoutSeconds: 30
      {{- with $own.resources | default $v.controller.resources }}
      resources:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      volumeMounts:
        {{- include "millwright.mounts" . | nindent 8 }}
    {{- with include "millwright.sidecars" .root }}
    {{- . | nindent 4 }}
    {{- end }}
  volumes:
    {{- include "millwright.volumes" . | nindent 4 }}
  {{- include "millwright.placement" . | trim | nindent 2 }}
{{- end -}}

{{/* Not empty if the chart brings etcd, or NATS: in mode distributed, if no other is named. */}}
{{- define "millwright.ownEtcd" -}}
{{- if and (eq .Values.mode "distributed") (not .Values.etcd.endpoints) -}}true{{- end -}}
{{- end -}}

{{- define "millwright.ownNATS" -}}
{{- if and (eq .Values.mode "distributed") (not (or .Values.nats.url .Values.nats.writerURLSecretName .Values.nats.readerURLSecretName)) -}}true{{- end -}}
{{- end -}}

{{/* Host names of the members of a server: dict root, service. */}}
{{- define "millwright.members" -}}
{{- $name := include "millwright.object" . -}}
{{- $hosts := list -}}
{{- range until 3 -}}
{{- $hosts = append $hosts (printf "%s-%d.%s.%s.svc" $name . $name $.root.Release.Namespace) -}}
{{- end -}}
{{- join " " $hosts -}}
{{- end -}}

{{/* Components whose pods are clients of a server: dict root, service. */}}
{{- define "millwright.clients" -}}
{{- $all := splitList " " (include "millwright.services" .root) -}}
{{- if eq .service "etcd" -}}{{ join ", " (append $all "certificates") }}{{- else -}}{{ join ", " (without $all "export") }}{{- end -}}
{{- end -}}

{{- define "millwright.etcdEndpoints" -}}
{{- if include "millwright.ownEtcd" . -}}
{{- $all := list -}}
{{- range splitList " " (include "millwright.members" (dict "root" . "service" "etcd")) -}}
{{- $all = append $all (printf "https://%s:2379" .) -}}
{{- end -}}
{{- join "," $all -}}
{{- else -}}
{{- join "," .Values.etcd.endpoints -}}
{{- end -}}
{{- end -}}

{{/* What a service reaches NATS by, with its user: dict root, service. */}}
{{- define "millwright.natsURL" -}}
{{- if include "millwright.ownNATS" .root -}}
{{- $user := eq .service "watcher" | ternary "watcher" "reader" -}}
{{- $all := list -}}
{{- range splitList " " (include "millwright.members" (dict "root" .root "service" "nats")) -}}
{{- $all = append $all (printf "tls://%s:$(NATS_PASSWORD)@%s:4222" $user .) -}}
{{- end -}}
{{- join "," $all -}}
{{- else -}}
{{- .root.Values.nats.url -}}
{{- end -}}
{{- end -}}

{{- define "millwright.serverImage" -}}
{{- if .digest -}}{{ .repository }}@{{ .digest }}{{- else -}}{{ .repository }}:{{ .tag }}{{- end -}}
{{- end -}}

{{/* What is special to the container of etcd: dict root, service. */}}
{{- define "millwright.etcd" -}}
{{- $name := include "millwright.object" . -}}
{{- $host := printf "$(POD_NAME).%s.%s.svc" $name .root.Release.Namespace -}}
{{- $cluster := list -}}
{{- range $i, $member := splitList " " (include "millwright.members" .) -}}
{{- $cluster = append $cluster (printf "%s-%d=https://%s:2380" $name $i $member) -}}
{{- end -}}
command: [etcd]
args:
  - --name=$(POD_NAME)
  - --data-dir=/data/etcd
  - --listen-client-urls=https://0.0.0.0:2379
  - --advertise-client-urls=https://{{ $host }}:2379
  - --listen-peer-urls=https://0.0.0.0:2380
  - --initial-advertise-peer-urls=https://{{ $host }}:2380
  - --initial-cluster={{ join "," $cluster }}
  - --initial-cluster-token={{ $name }}
  - --initial-cluster-state=new
  - --client-cert-auth
  - --trusted-ca-file=/etc/millwright/tls/ca.crt
  - --cert-file=/etc/millwright/tls/tls.crt
  - --key-file=/etc/millwright/tls/tls.key
  - --peer-client-cert-auth
  - --peer-trusted-ca-file=/etc/millwright/tls/ca.crt
  - --peer-cert-file=/etc/millwright/tls/tls.crt
  - --peer-key-file=/etc/millwright/tls/tls.key
  # The address of a pod that has just moved is not in everybody's DNS yet; only members have certificates of this CA for servers.
  - --peer-skip-client-san-verification
  # It would need a user for the certificate of the server.
  - --enable-grpc-gateway=false
  - --listen-metrics-urls=http://0.0.0.0:2381
  - --quota-backend-bytes={{ .root.Values.etcd.quotaBackendBytes | int64 }}
env:
  - name: POD_NAME
    valueFrom:
      fieldRef:
        fieldPath: metadata.name
startupProbe:
  httpGet: {path: /readyz, port: metrics}
  periodSeconds: 5
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /livez, port: metrics}
  periodSeconds: 10
  timeoutSeconds: 15
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: metrics}
  periodSeconds: 5
  timeoutSeconds: 5
volumeMounts:
  - {name: data, mountPath: /data}
  - {name: tls, mountPath: /etc/millwright/tls, readOnly: true}
{{- end -}}

{{/* What is special to the container of NATS: dict root, service. */}}
{{- define "millwright.nats" -}}
{{- $routes := list -}}
{{- range splitList " " (include "millwright.members" .) -}}
{{- $routes = append $routes (printf "nats-route://%s:6222" .) -}}
{{- end -}}
command: [nats-server]
args: [--config=/etc/millwright/nats/cluster.conf, --https_port=8222]
env:
  - name: NATS_SERVER_NAME
    valueFrom:
      fieldRef:
        fieldPath: metadata.name
  - {name: NATS_STORE_DIR, value: /data}
  - name: NATS_CLUSTER_LISTEN
    value: 0.0.0.0:6222
  - name: NATS_ROUTES
    value: {{ toJson $routes | quote }}
  - {name: NATS_CA_FILE, value: /etc/millwright/tls/ca.crt}
  - {name: NATS_CERT_FILE, value: /etc/millwright/tls/tls.crt}
  - {name: NATS_KEY_FILE, value: /etc/millwright/tls/tls.key}
  {{- range $user := tuple "watcher" "reader" }}
  - name: NATS_{{ upper $user }}_PASSWORD
    valueFrom:
      secretKeyRef: {name: {{ include "millwright.object" $ }}-users, key: {{ $user }}}
  {{- end }}
startupProbe:
  httpGet: {scheme: HTTPS, path: "/healthz?js-enabled-only=true", port: metrics}
  periodSeconds: 5
  failureThreshold: 60
livenessProbe:
  httpGet: {scheme: HTTPS, path: "/healthz?js-enabled-only=true", port: metrics}
  periodSeconds: 10
  timeoutSeconds: 15
  failureThreshold: 6
readinessProbe:
  httpGet: {scheme: HTTPS, path: "/healthz?js-server-only=true", port: metrics}
  periodSeconds: 5
  timeoutSeconds: 5
volumeMounts:
  - {name: data, mountPath: /data}
  - {name: tls, mountPath: /etc/millwright/tls, readOnly: true}
  - {name: configuration, mountPath: /etc/millwright/nats, readOnly: true}
{{- end -}}
