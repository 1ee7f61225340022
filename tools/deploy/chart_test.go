package deploy

import (
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/stream"
)

// manifest holds the fields common to all of Kubernetes' types.
type manifest struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metav1.ObjectMeta `json:"metadata"`
}

// scaledObject is KEDA's type, as far as it is used here: its own module brings with it a whole operator.
type scaledObject struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metav1.ObjectMeta `json:"metadata"`
	Spec            struct {
		ScaleTargetRef  struct{ Name string } `json:"scaleTargetRef"`
		MinReplicaCount *int32                `json:"minReplicaCount"`
		MaxReplicaCount *int32                `json:"maxReplicaCount"`
		CooldownPeriod  *int32                `json:"cooldownPeriod"`
		Advanced        struct {
			HorizontalPodAutoscalerConfig struct {
				Behavior *autoscalingv2.HorizontalPodAutoscalerBehavior `json:"behavior"`
			} `json:"horizontalPodAutoscalerConfig"`
		} `json:"advanced"`
		Triggers []struct {
			Type              string                `json:"type"`
			Metadata          map[string]string     `json:"metadata"`
			AuthenticationRef struct{ Name string } `json:"authenticationRef"`
		} `json:"triggers"`
	} `json:"spec"`
}

// kinds are the types of the chart's objects: Kubernetes' own, and those of operators.
var kinds = map[string]func() any{
	"v1 ConfigMap":                            func() any { return new(corev1.ConfigMap) },
	"v1 Service":                              func() any { return new(corev1.Service) },
	"apps/v1 Deployment":                      func() any { return new(appsv1.Deployment) },
	"batch/v1 Job":                            func() any { return new(batchv1.Job) },
	"policy/v1 PodDisruptionBudget":           func() any { return new(policyv1.PodDisruptionBudget) },
	"autoscaling/v2 HorizontalPodAutoscaler":  func() any { return new(autoscalingv2.HorizontalPodAutoscaler) },
	"networking.k8s.io/v1 NetworkPolicy":      func() any { return new(networkingv1.NetworkPolicy) },
	"networking.k8s.io/v1 Ingress":            func() any { return new(networkingv1.Ingress) },
	"monitoring.coreos.com/v1 PodMonitor":     func() any { return new(monitoringv1.PodMonitor) },
	"monitoring.coreos.com/v1 PrometheusRule": func() any { return new(monitoringv1.PrometheusRule) },
	"keda.sh/v1alpha1 ScaledObject":           func() any { return new(scaledObject) },
}

var separator = regexp.MustCompile(`(?m)^---\s*$`)

// theChart is read once.
var theChart = sync.OnceValues(func() (*chart.Chart, error) { return loader.LoadDir("chart") })

// values is a file of values, with further ones laid over it.
func values(t *testing.T, path string, over ...string) map[string]any {
	t.Helper()
	all := map[string]any{}
	for _, text := range append([]string{read(t, path)}, over...) {
		var next map[string]any
		require.NoError(t, yaml.UnmarshalStrict([]byte(text), &next))
		all = loader.MergeMaps(all, next)
	}
	return all
}

// release renders the chart as `helm template` does, as a release of this name in the namespace ranker.
func release(t *testing.T, name string, values map[string]any) (files map[string]string, err error) {
	t.Helper()
	c, err := theChart()
	require.NoError(t, err)
	all, err := util.ToRenderValues(c, values, common.ReleaseOptions{Name: name, Namespace: "ranker", Revision: 1, IsInstall: true}, nil)
	if err != nil {
		return nil, err
	}
	return engine.Render(c, all)
}

// rendered decodes every document of a release strictly: an unknown, misspelt or repeated field is an error.
func rendered(t *testing.T, values map[string]any) map[string]any {
	t.Helper()
	files, err := release(t, "ranker-worker", values)
	require.NoError(t, err)
	out := map[string]any{}
	for path, file := range files {
		for _, doc := range separator.Split(file, -1) {
			if strings.TrimSpace(doc) == "" || strings.HasSuffix(path, ".tpl") || strings.HasSuffix(path, ".txt") {
				continue
			}
			var m manifest
			require.NoError(t, yaml.Unmarshal([]byte(doc), &m), path)
			make, known := kinds[m.APIVersion+" "+m.Kind]
			require.True(t, known, "%s: %s %s", path, m.APIVersion, m.Kind)
			object := make()
			require.NoError(t, yaml.UnmarshalStrict([]byte(doc), object), "%s\n%s", path, doc)
			id := m.Kind + " " + m.Metadata.Name
			require.NotContains(t, out, id, path)
			assert.Equal(t, "ranker", m.Metadata.Namespace, path)
			out[id] = object
		}
	}
	return out
}

// sample is the release that deploy/values.yaml makes.
func sample(t *testing.T) map[string]any {
	t.Helper()
	return rendered(t, values(t, "values.yaml"))
}

// everything turns on whatever can be.
const everything = `
autoscaling: {by: lag, authentication: kafka, metadata: {tls: enable, sasl: scram_sha512}}
podMonitor: {enabled: true, labels: {release: prometheus}}
prometheusRule: {enabled: true, labels: {release: prometheus}, runbooks: "https://git.example.org/ranker-worker/"}
dashboard: {enabled: true}
image: {tag: v1.2.3, digest: "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", pullSecrets: [registry]}
mounts:
  - {name: kafka-ca, configMap: kafka-ca, path: /etc/kafka-ca}
  - {name: redis-ca, configMap: redis-ca, path: /etc/redis-ca}
  - {name: passwords, secret: ranker-passwords, path: /etc/passwords}
  - {name: kafka-token, audience: kafka, path: /var/run/kafka-token}
serviceAccount: ranker-worker
networkPolicy: {page: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: login}}}], others: [{to: [{ipBlock: {cidr: 10.0.0.7/32}}], ports: [443]}]}
`

// least is a configuration and nothing else.
const least = `
config: |
  kafka: {brokers: [kafka.kafka:9092], group: g}
  redis: {url: "redis://redis.redis:6379/0"}
  http: {listen: ":9999"}
  learners: {feed: {payoffs: stochastic, on_expiry: {default: 0}}}
secret: ""
mounts: []
networkPolicy: {enabled: false}
topics: {create: false}`

// get finds a manifest by its kind and name.
func get[T any](t *testing.T, all map[string]any, id string) *T {
	t.Helper()
	require.Contains(t, all, id)
	object, ok := all[id].(*T)
	require.True(t, ok)
	return object
}

// TestKubernetesProbes: probes go to the port that the configuration listens on, and to the paths that exist.
func TestKubernetesProbes(t *testing.T) {
	all := sample(t)
	d := get[appsv1.Deployment](t, all, "Deployment ranker-worker")
	cfg := kubernetesConfig(t, all)
	require.Len(t, d.Spec.Template.Spec.Containers, 1)
	c := d.Spec.Template.Spec.Containers[0]
	require.Len(t, c.Ports, 1)
	assert.Equal(t, "0.0.0.0:9108", cfg.HTTP.Listen)
	assert.EqualValues(t, 9108, c.Ports[0].ContainerPort)
	for path, probe := range map[string]*corev1.Probe{"/livez": c.LivenessProbe, "/readyz": c.ReadinessProbe} {
		require.NotNil(t, probe)
		require.NotNil(t, probe.HTTPGet)
		assert.Equal(t, path, probe.HTTPGet.Path)
		assert.Equal(t, c.Ports[0].Name, probe.HTTPGet.Port.String())
	}
	assert.Equal(t, "/livez", c.StartupProbe.HTTPGet.Path, "a start may wait for others; it must not be killed for it")
	s := get[corev1.Service](t, all, "Service ranker-worker")
	assert.Equal(t, c.Ports[0].Name, s.Spec.Ports[0].TargetPort.String())
	assert.Equal(t, "/metrics", d.Spec.Template.Annotations["prometheus.io/path"])
	assert.Equal(t, "9108", d.Spec.Template.Annotations["prometheus.io/port"])

	served := stream.NewHandler(stream.ServerConfig{Registry: prometheus.NewRegistry(), Unready: func() []string { return nil }})
	for _, path := range []string{c.LivenessProbe.HTTPGet.Path, c.ReadinessProbe.HTTPGet.Path, c.StartupProbe.HTTPGet.Path,
		d.Spec.Template.Annotations["prometheus.io/path"]} {
		answer := httptest.NewRecorder()
		served.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		assert.Equal(t, http.StatusOK, answer.Code, "the worker serves %s", path)
	}
}

// TestKubernetesSelectors: service, budget, autoscalers, monitor and deployment speak of the same pods.
func TestKubernetesSelectors(t *testing.T) {
	all := sample(t)
	d := get[appsv1.Deployment](t, all, "Deployment ranker-worker")
	labels := d.Spec.Template.Labels
	assert.Equal(t, labels, d.Spec.Selector.MatchLabels)
	assert.Equal(t, labels, get[corev1.Service](t, all, "Service ranker-worker").Spec.Selector)
	assert.Equal(t, labels, get[policyv1.PodDisruptionBudget](t, all, "PodDisruptionBudget ranker-worker").Spec.Selector.MatchLabels)
	assert.EqualValues(t, 2, *d.Spec.Replicas)
	job := get[batchv1.Job](t, all, "Job ranker-worker-topics")
	assert.NotEqual(t, labels["app.kubernetes.io/name"], job.Spec.Template.Labels["app.kubernetes.io/name"], "a job's pod is not a worker")
	monitored := rendered(t, values(t, "values.yaml", everything))
	m := get[monitoringv1.PodMonitor](t, monitored, "PodMonitor ranker-worker")
	assert.Equal(t, labels, m.Spec.Selector.MatchLabels)
	assert.Equal(t, "prometheus", m.Labels["release"])
	require.Len(t, m.Spec.PodMetricsEndpoints, 1)
	assert.Equal(t, d.Spec.Template.Spec.Containers[0].Ports[0].Name, *m.Spec.PodMetricsEndpoints[0].Port)
	assert.Equal(t, "/metrics", m.Spec.PodMetricsEndpoints[0].Path)
	assert.Empty(t, get[appsv1.Deployment](t, monitored, "Deployment ranker-worker").Spec.Template.Annotations, "or it is scraped twice")
}

// TestKubernetesAutoscaling: up to as many as there are partitions, and slowly down; the number of replicas is the autoscaler's.
func TestKubernetesAutoscaling(t *testing.T) {
	all := rendered(t, values(t, "values.yaml", "autoscaling: {by: cpu}"))
	d := get[appsv1.Deployment](t, all, "Deployment ranker-worker")
	assert.Nil(t, d.Spec.Replicas)
	job := get[batchv1.Job](t, all, "Job ranker-worker-topics").Spec.Template.Spec.Containers[0]
	assert.Equal(t, "6", job.Args[slices.Index(job.Args, "--partitions")+1])
	h := get[autoscalingv2.HorizontalPodAutoscaler](t, all, "HorizontalPodAutoscaler ranker-worker")
	assert.Equal(t, d.Name, h.Spec.ScaleTargetRef.Name)
	assert.EqualValues(t, 6, h.Spec.MaxReplicas, "no more replicas than partitions")

	all = rendered(t, values(t, "values.yaml", everything))
	assert.Nil(t, get[appsv1.Deployment](t, all, "Deployment ranker-worker").Spec.Replicas)
	k := get[scaledObject](t, all, "ScaledObject ranker-worker").Spec
	assert.Equal(t, d.Name, k.ScaleTargetRef.Name)
	assert.EqualValues(t, 6, *k.MaxReplicaCount)
	assert.Equal(t, h.Spec.Behavior, k.Advanced.HorizontalPodAutoscalerConfig.Behavior)
	assert.GreaterOrEqual(t, *h.Spec.Behavior.ScaleDown.StabilizationWindowSeconds, int32(1800))
	require.Len(t, k.Triggers, 1)
	assert.Equal(t, "kafka", k.Triggers[0].AuthenticationRef.Name)
	cfg := kubernetesConfig(t, all)
	assert.Equal(t, map[string]string{"bootstrapServers": strings.Join(cfg.Kafka.Brokers, ","), "consumerGroup": cfg.Kafka.Group,
		"topic": cfg.Kafka.Topics.Impressions, "lagThreshold": "5000", "tls": "enable", "sasl": "scram_sha512"}, k.Triggers[0].Metadata)
}

// TestKubernetesPodsAreConfined: no root, no writable file system, no capability, no token, and the requirements of restricted.
func TestKubernetesPodsAreConfined(t *testing.T) {
	all := rendered(t, values(t, "values.yaml", everything))
	for name, pod := range map[string]corev1.PodSpec{
		"deployment": get[appsv1.Deployment](t, all, "Deployment ranker-worker").Spec.Template.Spec,
		"job":        get[batchv1.Job](t, all, "Job ranker-worker-topics").Spec.Template.Spec,
	} {
		require.NotNil(t, pod.SecurityContext, name)
		assert.True(t, *pod.SecurityContext.RunAsNonRoot, name)
		assert.EqualValues(t, 65532, *pod.SecurityContext.RunAsUser, name)
		assert.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, pod.SecurityContext.SeccompProfile.Type, name)
		assert.False(t, *pod.AutomountServiceAccountToken, name)
		c := pod.Containers[0]
		assert.True(t, *c.SecurityContext.ReadOnlyRootFilesystem, name)
		assert.False(t, *c.SecurityContext.AllowPrivilegeEscalation, name)
		assert.Equal(t, []corev1.Capability{"ALL"}, c.SecurityContext.Capabilities.Drop, name)
		assert.False(t, c.Resources.Requests.Memory().IsZero(), name)
		assert.False(t, c.Resources.Limits.Memory().IsZero(), name)
		assert.Equal(t, configPath, c.Args[slices.Index(c.Args, "--config")+1], name)
		require.NotNil(t, c.EnvFrom[0].SecretRef, name)
		assert.Equal(t, "ranker-worker", c.EnvFrom[0].SecretRef.Name, name)
		assert.Equal(t, "ranker-worker:v1.2.3@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", c.Image, name)
		assert.Equal(t, []corev1.LocalObjectReference{{Name: "registry"}}, pod.ImagePullSecrets, name)
		volumes := map[string]bool{}
		for _, v := range pod.Volumes {
			volumes[v.Name] = true
		}
		for _, m := range c.VolumeMounts {
			assert.True(t, volumes[m.Name], "%s: %s", name, m.Name)
			assert.True(t, m.ReadOnly, "%s: %s", name, m.Name)
		}
		assert.Len(t, c.VolumeMounts, len(volumes), name)
	}
}

// scheduled has all settings of pods.
const scheduled = `
podLabels: {team: shop}
podAnnotations: {example.org/owner: shop}
nodeSelector: {kubernetes.io/arch: arm64}
tolerations: [{key: dedicated, operator: Equal, value: shop, effect: NoSchedule}]
affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a]}]}]}}}
topologySpreadConstraints: [{maxSkew: 2, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}]
priorityClassName: shop
env: [{name: TZ, value: UTC}]
extraVolumes: [{name: certificates, csi: {driver: secrets-store.csi.k8s.io, readOnly: true}}]
extraVolumeMounts: [{name: certificates, mountPath: /etc/certificates, readOnly: true}]
resources: {requests: {cpu: 1, memory: 512Mi}, limits: {memory: 1Gi}}
serve:
  ingress: {enabled: true, className: nginx, annotations: {a: b}, hosts: [rank.example.org], tlsSecret: rank-tls}
`

// TestKubernetesPodsAreScheduled as their settings are: workers, serve and the job.
func TestKubernetesPodsAreScheduled(t *testing.T) {
	all := rendered(t, servedBy(t, open, scheduled))
	worker := get[appsv1.Deployment](t, all, "Deployment ranker-worker").Spec.Template
	serve := get[appsv1.Deployment](t, all, "Deployment ranker-worker-serve").Spec.Template
	for name, pod := range map[string]corev1.PodTemplateSpec{"worker": worker, "serve": serve,
		"job": get[batchv1.Job](t, all, "Job ranker-worker-topics").Spec.Template} {
		assert.Equal(t, "shop", pod.Labels["team"], name)
		assert.Equal(t, "shop", pod.Annotations["example.org/owner"], name)
		assert.Equal(t, map[string]string{"kubernetes.io/arch": "arm64"}, pod.Spec.NodeSelector, name)
		require.Len(t, pod.Spec.Tolerations, 1, name)
		assert.Equal(t, "dedicated", pod.Spec.Tolerations[0].Key, name)
		assert.NotNil(t, pod.Spec.Affinity.NodeAffinity, name)
		assert.Equal(t, "shop", pod.Spec.PriorityClassName, name)
		c := pod.Spec.Containers[0]
		assert.Contains(t, c.Env, corev1.EnvVar{Name: "TZ", Value: "UTC"}, name)
		assert.Contains(t, c.VolumeMounts, corev1.VolumeMount{Name: "certificates", MountPath: "/etc/certificates", ReadOnly: true}, name)
		assert.True(t, slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == "certificates" && v.CSI != nil }), name)
	}
	for name, pod := range map[string]corev1.PodTemplateSpec{"worker": worker, "serve": serve} {
		require.Len(t, pod.Spec.TopologySpreadConstraints, 1, name)
		assert.Equal(t, "topology.kubernetes.io/zone", pod.Spec.TopologySpreadConstraints[0].TopologyKey, name)
	}
	assert.Equal(t, "1", worker.Spec.Containers[0].Resources.Requests.Cpu().String())

	in := get[networkingv1.Ingress](t, all, "Ingress ranker-worker-serve").Spec
	assert.Equal(t, "nginx", *in.IngressClassName)
	assert.Equal(t, "rank-tls", in.TLS[0].SecretName)
	assert.Equal(t, []string{"rank.example.org"}, in.TLS[0].Hosts)
	assert.Equal(t, "rank.example.org", in.Rules[0].Host)
	backend := in.Rules[0].HTTP.Paths[0].Backend.Service
	service := get[corev1.Service](t, all, "Service ranker-worker-serve")
	assert.Equal(t, service.Name, backend.Name)
	assert.Equal(t, service.Spec.Ports[0].Name, backend.Port.Name)

	_, err := release(t, "ranker-worker", servedBy(t, open, "serve: {ingress: {enabled: true}}"))
	require.ErrorContains(t, err, "hosts")
}

// TestKubernetesRollsOut one worker after the other, with time to drain, and again when the configuration changes. The new one is a
// ConfigMap of another name. So no pod has it before its turn, and there is a way back.
func TestKubernetesRollsOut(t *testing.T) {
	all := sample(t)
	d := get[appsv1.Deployment](t, all, "Deployment ranker-worker")
	// A drain is bounded by 10 s, a third of the rebalance timeout; the server's shutdown by 5 s more.
	assert.GreaterOrEqual(t, *d.Spec.Template.Spec.TerminationGracePeriodSeconds, int64(30))
	rolling := d.Spec.Strategy.RollingUpdate
	require.NotNil(t, rolling)
	assert.Equal(t, 1, rolling.MaxSurge.IntValue())
	assert.Equal(t, 0, rolling.MaxUnavailable.IntValue())
	assert.Greater(t, d.Spec.MinReadySeconds, int32(10+10), "a session timeout, and a drain of those who hand over")
	assert.Greater(t, *d.Spec.ProgressDeadlineSeconds, d.Spec.MinReadySeconds)

	m := kubernetesConfigMap(t, all)
	require.NotNil(t, m.Immutable)
	assert.True(t, *m.Immutable)
	assert.Equal(t, "keep", m.Annotations["helm.sh/resource-policy"], "or an upgrade deletes the configuration of running pods")
	assert.Equal(t, m.Name, configVolume(t, d.Spec.Template.Spec))

	again := kubernetesConfigMap(t, rendered(t, values(t, "values.yaml", "replicas: 3")))
	assert.Equal(t, m.Name, again.Name, "a setting outside the configuration restarts nothing")
	other := values(t, "values.yaml")
	other["config"] = strings.Replace(other["config"].(string), "level: info", "level: debug", 1)
	all = rendered(t, other)
	changed := kubernetesConfigMap(t, all)
	assert.NotEqual(t, m.Name, changed.Name)
	assert.Equal(t, changed.Name, configVolume(t, get[appsv1.Deployment](t, all, "Deployment ranker-worker").Spec.Template.Spec))
}

// TestKubernetesTopicsJob is a hook with a configuration of its own, for hooks run before the chart's objects are there; and all
// that it needs comes before it.
func TestKubernetesTopicsJob(t *testing.T) {
	all := sample(t)
	job := get[batchv1.Job](t, all, "Job ranker-worker-topics")
	m := get[corev1.ConfigMap](t, all, "ConfigMap "+configVolume(t, job.Spec.Template.Spec))
	assert.Equal(t, kubernetesConfigMap(t, all).Data, m.Data)
	for _, annotations := range []map[string]string{job.Annotations, m.Annotations} {
		assert.Equal(t, "pre-install,pre-upgrade", annotations["helm.sh/hook"])
		assert.Equal(t, "before-hook-creation,hook-succeeded", annotations["helm.sh/hook-delete-policy"])
	}
	assert.Equal(t, "-1", m.Annotations["helm.sh/hook-weight"])
	assert.NotContains(t, job.Annotations, "helm.sh/hook-weight", "0, after the configuration's")
	for id := range rendered(t, values(t, "values.yaml", "topics: {create: false}")) {
		assert.NotContains(t, id, "topics")
	}
}

// configVolume is the ConfigMap that a pod has its configuration from.
func configVolume(t *testing.T, pod corev1.PodSpec) string {
	t.Helper()
	at := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == "config" })
	require.GreaterOrEqual(t, at, 0)
	return pod.Volumes[at].ConfigMap.Name
}

// TestKubernetesNetworkPolicy: nobody but Prometheus and the page's proxy comes in, on the port of probes and metrics. Workers come to
// the Kafka and the Redis of their configuration, to names, and no further.
func TestKubernetesNetworkPolicy(t *testing.T) {
	all := sample(t)
	p := get[networkingv1.NetworkPolicy](t, all, "NetworkPolicy ranker-worker").Spec
	d := get[appsv1.Deployment](t, all, "Deployment ranker-worker")
	assert.Equal(t, d.Spec.Template.Labels, p.PodSelector.MatchLabels)
	assert.ElementsMatch(t, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}, p.PolicyTypes)

	port := d.Spec.Template.Spec.Containers[0].Ports[0].Name
	in := func(namespace, app, port string) bool {
		return slices.ContainsFunc(p.Ingress, func(r networkingv1.NetworkPolicyIngressRule) bool {
			return admits(r.From, r.Ports, namespace, map[string]string{"app.kubernetes.io/name": app}, port)
		})
	}
	assert.True(t, in("monitoring", "prometheus", port))
	assert.False(t, in("monitoring", "prometheus", "8080"))
	assert.False(t, in("monitoring", "grafana", port))
	assert.False(t, in("ranker", "ranker-worker", port))
	assert.False(t, in("default", "prometheus", port))
	assert.False(t, in("login", "proxy", port))
	p = get[networkingv1.NetworkPolicy](t, rendered(t, values(t, "values.yaml", everything)), "NetworkPolicy ranker-worker").Spec
	assert.True(t, in("login", "proxy", port), "networkPolicy.page")
	assert.False(t, in("login", "proxy", "8080"))
	assert.False(t, in("default", "proxy", port))
	p = get[networkingv1.NetworkPolicy](t, all, "NetworkPolicy ranker-worker").Spec

	out := func(namespace, app, port string) bool {
		return slices.ContainsFunc(p.Egress, func(r networkingv1.NetworkPolicyEgressRule) bool {
			return admits(r.To, r.Ports, namespace, map[string]string{"k8s-app": app}, port)
		})
	}
	cfg := kubernetesConfig(t, all)
	for _, address := range append(slices.Clone(cfg.Kafka.Brokers), cfg.Redis.Addresses...) {
		host, port, err := net.SplitHostPort(address)
		require.NoError(t, err)
		_, namespace, found := strings.Cut(host, ".")
		require.True(t, found, address)
		assert.True(t, out(namespace, "any", port), address)
		assert.False(t, out(namespace, "any", "443"), address)
		assert.False(t, out("default", "any", port), address)
	}
	assert.True(t, out("kube-system", "kube-dns", "53"))
	assert.False(t, out("kube-system", "kube-apiserver", "443"))
}

// admits reports whether a rule is for a pod with these labels, in a namespace of this name, and for the port. A rule without
// peers or ports is for all.
func admits(peers []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort, namespace string,
	labels map[string]string, port string) bool {
	matches := func(s *metav1.LabelSelector, labels map[string]string) bool {
		if s == nil {
			return true
		}
		for k, v := range s.MatchLabels {
			if labels[k] != v {
				return false
			}
		}
		return true
	}
	from := len(peers) == 0 || slices.ContainsFunc(peers, func(peer networkingv1.NetworkPolicyPeer) bool {
		if peer.NamespaceSelector == nil && namespace != "ranker" {
			return false
		}
		return matches(peer.NamespaceSelector, map[string]string{corev1.LabelMetadataName: namespace}) && matches(peer.PodSelector, labels)
	})
	return from && (len(ports) == 0 || slices.ContainsFunc(ports, func(p networkingv1.NetworkPolicyPort) bool {
		return p.Port == nil || p.Port.String() == port
	}))
}

// kubernetesConfigMap is that of the workers, whatever its content.
func kubernetesConfigMap(t *testing.T, all map[string]any) *corev1.ConfigMap {
	t.Helper()
	for id := range all {
		if regexp.MustCompile(`^ConfigMap ranker-worker-[0-9a-f]{10}$`).MatchString(id) {
			return get[corev1.ConfigMap](t, all, id)
		}
	}
	require.Fail(t, "no ConfigMap of the workers")
	return nil
}

// kubernetesSecret is the Secret that deploy/values.yaml describes.
var kubernetesSecret = map[string]string{"KAFKA_PASSWORD": "change-me", "REDIS_PASSWORD": "change-me"}

// kubernetesConfig is the configuration of the ConfigMap, loaded with the Secret's variables and no others.
func kubernetesConfig(t *testing.T, all map[string]any) *config.Config {
	t.Helper()
	m := kubernetesConfigMap(t, all)
	require.Contains(t, m.Data, filepath.Base(configPath))
	return sound(t, "config.yaml", m.Data[filepath.Base(configPath)], kubernetesSecret)
}

// TestKubernetesConfig: the configuration is sound, and the certificates that it names are mounted.
func TestKubernetesConfig(t *testing.T) {
	all := sample(t)
	cfg := kubernetesConfig(t, all)
	assert.EqualValues(t, "change-me", cfg.Kafka.SASL.Password)
	mounts := map[string]bool{}
	for _, m := range get[appsv1.Deployment](t, all, "Deployment ranker-worker").Spec.Template.Spec.Containers[0].VolumeMounts {
		mounts[m.MountPath] = true
	}
	assert.True(t, mounts[filepath.Dir(cfg.Kafka.TLS.CAFile)])
	assert.True(t, mounts[filepath.Dir(cfg.Redis.TLS.CAFile)])
	assert.True(t, mounts[filepath.Dir(configPath)])
}

// TestChartLints as `helm lint` does, without a word but that there is no icon.
func TestChartLints(t *testing.T) {
	for name, v := range map[string]map[string]any{"values.yaml": values(t, "values.yaml"), "everything": values(t, "values.yaml", everything)} {
		for _, m := range lint.RunAll("chart", v, "ranker").Messages {
			assert.LessOrEqual(t, m.Severity, support.InfoSev, "%s: %s", name, m.Error())
		}
	}
}

// TestChartWithLittle: a configuration is enough, and optional objects are not made.
func TestChartWithLittle(t *testing.T) {
	all := rendered(t, values(t, "values.yaml", least))
	assert.Len(t, all, 4)
	pod := get[appsv1.Deployment](t, all, "Deployment ranker-worker").Spec.Template
	assert.Empty(t, pod.Spec.Containers[0].EnvFrom)
	assert.Len(t, pod.Spec.Volumes, 1)
	assert.EqualValues(t, 9999, pod.Spec.Containers[0].Ports[0].ContainerPort, "the port is the configuration's")
	assert.Equal(t, "9999", pod.Annotations["prometheus.io/port"])
	sound(t, "config.yaml", kubernetesConfigMap(t, all).Data["config.yaml"], nil, "redis.url")

	files, err := release(t, "shop", values(t, "values.yaml"))
	require.NoError(t, err)
	assert.Contains(t, files["ranker-worker/templates/deployment.yaml"], "\n  name: shop-ranker-worker\n")
}

// TestChartMemoryLimit: Go's collector keeps to nine tenths of the limit.
func TestChartMemoryLimit(t *testing.T) {
	for limit, want := range map[string]string{"1Gi": "921MiB", "512Mi": "460MiB", "3Gi": "2764MiB"} {
		all := rendered(t, values(t, "values.yaml", "resources: {limits: {memory: "+limit+"}}"))
		c := get[appsv1.Deployment](t, all, "Deployment ranker-worker").Spec.Template.Spec.Containers[0]
		assert.Equal(t, []corev1.EnvVar{{Name: "GOMEMLIMIT", Value: want}}, c.Env)
		assert.Equal(t, limit, c.Resources.Limits.Memory().String())
	}
}

// TestChartRefuses values that make no sense, by its schema or by looking at the configuration.
func TestChartRefuses(t *testing.T) {
	for _, over := range []string{
		"config: ''", "config: {kafka: {}}", "replica: 3", "replicas: many", "replicas: -1", "image: {digest: latest}", "image: {pullPolicy: Sometimes}",
		"secret: Ranker", "mounts: [{name: x, path: /x}]", "mounts: [{name: x, path: /x, configMap: a, secret: b}]",
		"mounts: [{name: x, path: /x, audience: a, secret: b}]", "serviceAccount: Ranker", "mounts: [{name: config, path: /x, secret: b}]", "mounts: [{name: x, path: x, secret: b}]",
		"resources: {limits: {memory: 1G}}", "resources: {limits: {memory: null}}", "resources: {limits: {memory: 0.5Gi}}",
		"autoscaling: {by: memory}", "autoscaling: {max: 0}", "autoscaling: {metadata: {limitToPartitionsWithLag: true}}",
		"topics: {retention: 14d}", "topics: {partitions: 0}", "networkPolicy: {kafka: {ports: [0]}}", "networkPolicy: {kafka: {to: []}}",
		"networkPolicy: {kafka: {to: [{}]}}", "networkPolicy: {prometheus: {labels: null}}", "networkPolicy: {page: [{}]}", "podMonitor: {interval: often}",
		"prometheusRule: {runbooks: https://git.example.org}", "prometheusRule: {enabled: true, thresholds: {RankerLagGrow: 1}}",
		"prometheusRule: {enabled: true, thresholds: {RankerUnfit: 1}}", "prometheusRule: {thresholds: {RankerLagGrows: many}}", "dashboard: {labels: {grafana_dashboard: 1}}", "secrets: x",
		`config: "http: {listen: '127.0.0.1:9108'}"`, `config: "kafka: {}"`,
		`{autoscaling: {by: lag}, config: "{http: {listen: ':1'}, kafka: {brokers: ['${BROKERS}']}}"}`,
	} {
		_, err := release(t, "ranker-worker", values(t, "values.yaml", over))
		assert.Error(t, err, over)
	}
	_, err := release(t, "ranker-worker", map[string]any{})
	assert.ErrorContains(t, err, "config", "without any values")
	var d appsv1.Deployment
	assert.Error(t, yaml.UnmarshalStrict([]byte("spec: {replica: 1}"), &d), "strict decoding can fail")
}
