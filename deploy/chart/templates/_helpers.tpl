{{/* The name of everything: the release's, with the chart's where that does not say it. */}}
{{- define "ranker-worker.name" -}}
{{- if contains .Chart.Name .Release.Name -}}{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else -}}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}{{- end -}}
{{- end -}}

{{- define "ranker-worker.serveName" -}}
{{ include "ranker-worker.name" . }}-serve
{{- end -}}

{{/* Labels that select pods; they can never change. Argument, here and below: the root's context, and "-serve" or, for workers, "". */}}
{{- define "ranker-worker.selector" -}}
app.kubernetes.io/name: {{ (first .).Chart.Name }}{{ last . }}
app.kubernetes.io/instance: {{ (first .).Release.Name }}
{{- end -}}

{{- define "ranker-worker.labels" -}}
{{ include "ranker-worker.selector" . }}
app.kubernetes.io/version: {{ (first .).Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ (first .).Release.Service }}
{{- end -}}

{{/* An object's metadata, of which labels are the last. */}}
{{- define "ranker-worker.metadata" -}}
name: {{ include "ranker-worker.name" (first .) }}{{ last . }}
namespace: {{ (first .).Release.Namespace }}
labels: {{- include "ranker-worker.labels" . | nindent 2 }}
{{- end -}}

{{/* A configuration has a name of its own, by its content: so a roll-out can be undone. */}}
{{- define "ranker-worker.config" -}}
{{ include "ranker-worker.name" . }}-{{ .Values.config | sha256sum | trunc 10 }}
{{- end -}}

{{- define "ranker-worker.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ with .Values.image.digest }}@{{ . }}{{ end }}
{{- end -}}

{{/* The port of the configuration's http.listen, which has to be on all addresses. */}}
{{- define "ranker-worker.port" -}}
{{- include "ranker-worker.portOf" (dict "key" "http.listen" "listen" (dig "http" "listen" "127.0.0.1:9108" (fromYaml .Values.config)) "like" "0.0.0.0:9108") -}}
{{- end -}}

{{/* Likewise of serve.listen. */}}
{{- define "ranker-worker.servePort" -}}
{{- include "ranker-worker.portOf" (dict "key" "serve.listen" "listen" (dig "serve" "listen" "127.0.0.1:8081" (fromYaml .Values.config)) "like" "0.0.0.0:8081") -}}
{{- end -}}

{{- define "ranker-worker.portOf" -}}
{{- if not (regexMatch "^(0\\.0\\.0\\.0|\\[::\\])?:[0-9]+$" .listen) -}}
{{- fail (printf "config: %s is %q, where no probe reaches it; %s is on all addresses of the pod" .key .listen .like) -}}
{{- end -}}
{{ splitList ":" .listen | last }}
{{- end -}}

{{/* The protocol of `serve`, and whether it asks for tokens; both empty where not. */}}
{{- define "ranker-worker.serveTLS" -}}
{{- if dig "serve" "cert_file" "" (fromYaml .Values.config) -}}tls{{- end -}}
{{- end -}}

{{- define "ranker-worker.serveTokens" -}}
{{- if dig "serve" "tokens_file" "" (fromYaml .Values.config) -}}tokens{{- end -}}
{{- end -}}

{{/* Nine tenths of a memory limit: the rest is for memory that Go's collector does not count. */}}
{{- define "ranker-worker.gomemlimit" -}}
{{- $limit := .limits.memory -}}
{{- $mib := regexFind "^[0-9]+" $limit | int64 -}}
{{- if hasSuffix "Gi" $limit -}}{{- $mib = mul $mib 1024 -}}{{- end -}}
{{ div (mul $mib 9) 10 }}MiB
{{- end -}}

{{/* Where pods run; argument: the root's context as root, and the labels that select the pods, if they are spread. */}}
{{- define "ranker-worker.scheduling" -}}
{{- with .root.Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- if and .spread .root.Values.topologySpreadConstraints }}
topologySpreadConstraints: {{- toYaml .root.Values.topologySpreadConstraints | nindent 2 }}
{{- else if .spread }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- .spread | nindent 8 }}
{{- end }}
{{- end -}}

{{- define "ranker-worker.podLabels" -}}
{{- with .Values.podLabels }}{{ toYaml . }}{{ end }}
{{- end -}}

{{- define "ranker-worker.podSecurity" -}}
automountServiceAccountToken: false
{{- with .Values.serviceAccount }}
serviceAccountName: {{ . }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile:
    type: RuntimeDefault
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end -}}

{{- define "ranker-worker.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* The environment that the configuration's variables come from. */}}
{{- define "ranker-worker.envFrom" -}}
{{- with .Values.secret }}
envFrom:
  - secretRef:
      name: {{ . }}
{{- end }}
{{- end -}}

{{/* A container but for its readiness and mounts. Argument: root, its name, verb, values, name and number of its port, and scheme or "". */}}
{{- define "ranker-worker.container" -}}
name: {{ .name }}
image: {{ include "ranker-worker.image" .root }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
args: [{{ .verb }}, --config, /etc/ranker/config.yaml]
env:
  - name: GOMEMLIMIT
    value: {{ include "ranker-worker.gomemlimit" .values.resources }}
  {{- with .root.Values.env }}{{ toYaml . | nindent 2 }}{{ end }}
{{- include "ranker-worker.envFrom" .root | nindent 0 }}
ports:
  - name: {{ .port }}
    containerPort: {{ .number }}
startupProbe:
  httpGet: {path: /livez, port: {{ .port }}{{ with .scheme }}, scheme: {{ . }}{{ end }}}
  periodSeconds: 2
  failureThreshold: 30
livenessProbe:
  httpGet: {path: /livez, port: {{ .port }}{{ with .scheme }}, scheme: {{ . }}{{ end }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
resources: {{- toYaml .values.resources | nindent 2 }}
securityContext: {{- include "ranker-worker.containerSecurity" .root | nindent 2 }}
{{- end -}}

{{- define "ranker-worker.volumeMounts" -}}
- {name: config, mountPath: /etc/ranker, readOnly: true}
{{- include "ranker-worker.mountsOf" .Values.mounts }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Volumes but for the configuration's. */}}
{{- define "ranker-worker.volumes" -}}
{{- include "ranker-worker.volumesOf" .Values.mounts }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "ranker-worker.mountsOf" -}}
{{- range . }}
- {name: {{ .name }}, mountPath: {{ .path }}, readOnly: true}
{{- end }}
{{- end -}}

{{- define "ranker-worker.volumesOf" -}}
{{- range . }}
- name: {{ .name }}
  {{- if .configMap }}
  configMap:
    name: {{ .configMap }}
  {{- else if .audience }}
  projected:
    sources:
      - serviceAccountToken: {path: token, audience: {{ .audience | quote }}, expirationSeconds: 3600}
  {{- else }}
  secret:
    secretName: {{ .secret }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* Each change of members moves partitions: up by two a minute, down by one in ten minutes after half an hour of calm. */}}
{{- define "ranker-worker.scaling" -}}
scaleUp:
  stabilizationWindowSeconds: 60
  policies:
    - {type: Pods, value: 2, periodSeconds: 60}
scaleDown:
  stabilizationWindowSeconds: 1800
  policies:
    - {type: Pods, value: 1, periodSeconds: 600}
{{- end -}}

{{/* Rules of network policies. */}}
{{- define "ranker-worker.fromPrometheus" -}}
- from:
    - namespaceSelector:
        matchLabels:
          kubernetes.io/metadata.name: {{ .pods.namespace }}
      podSelector:
        matchLabels: {{- toYaml .pods.labels | nindent 10 }}
  ports:
    - {protocol: TCP, port: {{ .port }}}
{{- end -}}

{{- define "ranker-worker.toNames" -}}
- to:
    - namespaceSelector:
        matchLabels:
          kubernetes.io/metadata.name: {{ .namespace }}
      podSelector:
        matchLabels: {{- toYaml .labels | nindent 10 }}
  ports:
    - {protocol: UDP, port: 53}
    - {protocol: TCP, port: 53}
{{- end -}}

{{- define "ranker-worker.toPeers" -}}
- to: {{- toYaml .to | nindent 4 }}
  ports:
    {{- range .ports }}
    - {protocol: TCP, port: {{ . }}}
    {{- end }}
{{- end -}}
