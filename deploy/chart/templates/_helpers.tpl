{{/* The name of everything: the release's, with the chart's where that does not say it. */}}
{{- define "ranker-worker.name" -}}
{{- if contains .Chart.Name .Release.Name -}}{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else -}}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}{{- end -}}
{{- end -}}

{{/* What selects the workers' pods; they can never change. */}}
{{- define "ranker-worker.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "ranker-worker.labels" -}}
{{ include "ranker-worker.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
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
{{- $listen := dig "http" "listen" "127.0.0.1:9108" (fromYaml .Values.config) -}}
{{- if not (regexMatch "^(0\\.0\\.0\\.0|\\[::\\])?:[0-9]+$" $listen) -}}
{{- fail (printf "config: http.listen is %q, where no probe reaches it; 0.0.0.0:9108 is on all addresses of the pod" $listen) -}}
{{- end -}}
{{ splitList ":" $listen | last }}
{{- end -}}

{{/* Nine tenths of the memory limit: the rest is for what Go's collector does not count. */}}
{{- define "ranker-worker.gomemlimit" -}}
{{- $limit := .Values.resources.limits.memory -}}
{{- $mib := regexFind "^[0-9]+" $limit | int64 -}}
{{- if hasSuffix "Gi" $limit -}}{{- $mib = mul $mib 1024 -}}{{- end -}}
{{ div (mul $mib 9) 10 }}MiB
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

{{- define "ranker-worker.volumeMounts" -}}
- {name: config, mountPath: /etc/ranker, readOnly: true}
{{- range .Values.mounts }}
- {name: {{ .name }}, mountPath: {{ .path }}, readOnly: true}
{{- end }}
{{- end -}}

{{/* Volumes but for the configuration's. */}}
{{- define "ranker-worker.volumes" -}}
{{- range .Values.mounts }}
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
