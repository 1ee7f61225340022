package deploy

import (
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"

	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/internal/serve"
	"github.com/ranker-worker/ranker-worker/stream"
)

// serving is the sample with `serve`, over TLS and for those who have a token, and all that can be had with it.
const serving = `
serve:
  enabled: true
  mounts:
    - {name: serve-tls, secret: serve-tls, path: /etc/serve-tls}
    - {name: serve-tokens, secret: serve-tokens, path: /etc/serve-tokens}
  autoscaling: {by: cpu}
  service: {type: LoadBalancer, annotations: {example.org/internal: "true"}}
  clients: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: shop}}}]
  metrics: {token: {secret: prometheus-token}}
podMonitor: {enabled: true, labels: {release: prometheus}}
`

// servedBy is the sample's configuration with a section of `serve`.
func servedBy(t *testing.T, section string, over ...string) map[string]any {
	t.Helper()
	v := values(t, "values.yaml", append([]string{serving}, over...)...)
	v["config"] = v["config"].(string) + section
	return v
}

const (
	secured = "serve: {listen: '0.0.0.0:8081', cert_file: /etc/serve-tls/tls.crt, key_file: /etc/serve-tls/tls.key, tokens_file: /etc/serve-tokens/tokens}\n"
	open    = "serve: {listen: ':8082'}\n"
)

const serveID = "ranker-worker-serve"

// TestServeIsOffByDefault, and then leaves nothing of itself.
func TestServeIsOffByDefault(t *testing.T) {
	for id := range sample(t) {
		assert.NotContains(t, id, "serve")
	}
}

// TestServeProbes go to the port and by the scheme that the configuration has, and to paths that there are.
func TestServeProbes(t *testing.T) {
	for section, want := range map[string]struct {
		scheme corev1.URIScheme
		port   int32
	}{secured: {corev1.URISchemeHTTPS, 8081}, open: {corev1.URISchemeHTTP, 8082}} {
		all := rendered(t, servedBy(t, section))
		c := get[appsv1.Deployment](t, all, "Deployment "+serveID).Spec.Template.Spec.Containers[0]
		assert.Equal(t, []string{"serve", "--config", configPath}, c.Args)
		require.Len(t, c.Ports, 1)
		assert.Equal(t, want.port, c.Ports[0].ContainerPort)
		for path, probe := range map[string]*corev1.Probe{"/livez": c.LivenessProbe, "/readyz": c.ReadinessProbe} {
			assert.Equal(t, path, probe.HTTPGet.Path)
			assert.Equal(t, c.Ports[0].Name, probe.HTTPGet.Port.String())
			assert.Equal(t, want.scheme, probe.HTTPGet.Scheme)
		}
		assert.Equal(t, "/livez", c.StartupProbe.HTTPGet.Path)
		assert.Equal(t, want.scheme, c.StartupProbe.HTTPGet.Scheme)
		s := get[corev1.Service](t, all, "Service "+serveID).Spec
		assert.Equal(t, c.Ports[0].Name, s.Ports[0].TargetPort.String())
		assert.Equal(t, want.port, s.Ports[0].Port)
		assert.Equal(t, corev1.ServiceTypeLoadBalancer, s.Type)
	}
	cfg := sound(t, "config.yaml", kubernetesConfigMap(t, rendered(t, servedBy(t, open))).Data["config.yaml"], kubernetesSecret, "serve.listen")
	cfg.Kafka.TLS.CAFile = "" // it is not here
	b, err := app.NewBroker(cfg)
	require.NoError(t, err)
	defer b.Close()
	registry := prometheus.NewRegistry()
	d, err := serve.New(cfg, b, app.TopicNames(cfg), serve.Options{Metrics: serve.NewMetrics(registry)})
	require.NoError(t, err)
	served := d.Handler(stream.NewHandler(stream.ServerConfig{Registry: registry, Unready: func() []string { return nil }}))
	for _, path := range []string{"/livez", "/readyz", "/metrics"} {
		answer := httptest.NewRecorder()
		served.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		assert.Equal(t, http.StatusOK, answer.Code, path)
	}
}

// TestServePodsAreTheirOwn: service, budget, autoscaler, monitor and policy of `serve` speak of its pods, and nothing of the
// workers does.
func TestServePodsAreTheirOwn(t *testing.T) {
	all := rendered(t, servedBy(t, secured))
	d := get[appsv1.Deployment](t, all, "Deployment "+serveID)
	labels := d.Spec.Template.Labels
	assert.Equal(t, labels, d.Spec.Selector.MatchLabels)
	assert.Nil(t, d.Spec.Replicas, "the autoscaler's")
	assert.Equal(t, labels, get[corev1.Service](t, all, "Service "+serveID).Spec.Selector)
	assert.Equal(t, labels, get[policyv1.PodDisruptionBudget](t, all, "PodDisruptionBudget "+serveID).Spec.Selector.MatchLabels)
	assert.Equal(t, labels, get[networkingv1.NetworkPolicy](t, all, "NetworkPolicy "+serveID).Spec.PodSelector.MatchLabels)
	h := get[autoscalingv2.HorizontalPodAutoscaler](t, all, "HorizontalPodAutoscaler "+serveID)
	assert.Equal(t, d.Name, h.Spec.ScaleTargetRef.Name)
	assert.NotContains(t, all, "HorizontalPodAutoscaler ranker-worker")

	worker := get[appsv1.Deployment](t, all, "Deployment ranker-worker").Spec
	assert.NotEqual(t, worker.Selector.MatchLabels["app.kubernetes.io/name"], labels["app.kubernetes.io/name"])

	fixed := rendered(t, servedBy(t, secured, "serve: {autoscaling: {by: none}, replicas: 3}"))
	assert.EqualValues(t, 3, *get[appsv1.Deployment](t, fixed, "Deployment "+serveID).Spec.Replicas)
	assert.NotContains(t, fixed, "HorizontalPodAutoscaler "+serveID)
}

// TestServeIsConfined as workers are, starts with their configuration, and alone has the Secrets that are its own.
func TestServeIsConfined(t *testing.T) {
	all := rendered(t, servedBy(t, secured))
	workers := get[appsv1.Deployment](t, all, "Deployment ranker-worker").Spec.Template.Spec
	pod := get[appsv1.Deployment](t, all, "Deployment "+serveID).Spec.Template.Spec
	assert.Equal(t, workers.SecurityContext, pod.SecurityContext)
	assert.Equal(t, workers.AutomountServiceAccountToken, pod.AutomountServiceAccountToken)
	c, worker := pod.Containers[0], workers.Containers[0]
	assert.Equal(t, worker.SecurityContext, c.SecurityContext)
	assert.Equal(t, worker.EnvFrom, c.EnvFrom)
	assert.Equal(t, worker.Image, c.Image)
	assert.Equal(t, []corev1.EnvVar{{Name: "GOMEMLIMIT", Value: "921MiB"}}, c.Env)
	assert.Equal(t, kubernetesConfigMap(t, all).Name, configVolume(t, pod), "a change restarts it")

	cfg := sound(t, "config.yaml", kubernetesConfigMap(t, all).Data["config.yaml"], kubernetesSecret)
	mounted := func(c *corev1.Container, file string) bool {
		return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
			return m.ReadOnly && strings.HasPrefix(file, m.MountPath+string(filepath.Separator))
		})
	}
	for _, file := range []string{cfg.Serve.CertFile, cfg.Serve.KeyFile, cfg.Serve.TokensFile} {
		assert.True(t, mounted(&c, file), file)
		assert.False(t, mounted(&worker, file), file)
	}
	assert.True(t, mounted(&c, cfg.Kafka.TLS.CAFile))
	for _, m := range c.VolumeMounts {
		assert.True(t, slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name }), m.Name)
	}
	assert.Len(t, c.VolumeMounts, len(pod.Volumes))
}

// TestServeDrains: it gets no requests any more when it stops listening, where the cluster can wait for that, and has time to answer.
func TestServeDrains(t *testing.T) {
	c, err := theChart()
	require.NoError(t, err)
	on := func(version string) appsv1.DeploymentSpec {
		cluster := common.DefaultCapabilities.Copy()
		cluster.KubeVersion = common.KubeVersion{Version: version}
		all, err := util.ToRenderValues(c, servedBy(t, secured), common.ReleaseOptions{Name: "ranker-worker", Namespace: "ranker"}, cluster)
		require.NoError(t, err)
		files, err := engine.Render(c, all)
		require.NoError(t, err)
		var d appsv1.Deployment
		require.NoError(t, yaml.UnmarshalStrict([]byte(separator.Split(files["ranker-worker/templates/serve.yaml"], -1)[0]), &d))
		return d.Spec
	}
	d := on("v1.30.0")
	assert.Equal(t, 0, d.Strategy.RollingUpdate.MaxUnavailable.IntValue())
	stop := d.Template.Spec.Containers[0].Lifecycle.PreStop.Sleep.Seconds
	assert.Positive(t, stop)
	assert.Greater(t, *d.Template.Spec.TerminationGracePeriodSeconds, stop+15+10, "what is under way is answered within 15 s")
	assert.Nil(t, on("v1.29.4").Template.Spec.Containers[0].Lifecycle, "which that version refuses")
}

// TestServeMonitoring: metrics are read by the scheme and with the token that there are, and where they cannot be, nobody is sent there.
func TestServeMonitoring(t *testing.T) {
	all := rendered(t, servedBy(t, secured))
	m := get[monitoringv1.PodMonitor](t, all, "PodMonitor "+serveID)
	d := get[appsv1.Deployment](t, all, "Deployment "+serveID).Spec
	assert.Equal(t, "prometheus", m.Labels["release"])
	assert.Equal(t, d.Selector.MatchLabels, m.Spec.Selector.MatchLabels)
	require.Len(t, m.Spec.PodMetricsEndpoints, 1)
	e := m.Spec.PodMetricsEndpoints[0]
	assert.Equal(t, d.Template.Spec.Containers[0].Ports[0].Name, *e.Port)
	assert.EqualValues(t, "https", e.Scheme.String())
	assert.True(t, *e.TLSConfig.InsecureSkipVerify)
	assert.Equal(t, "prometheus-token", e.Authorization.Credentials.Name)
	assert.Equal(t, "token", e.Authorization.Credentials.Key)
	assert.Empty(t, d.Template.Annotations)

	plain := rendered(t, servedBy(t, open))
	e = get[monitoringv1.PodMonitor](t, plain, "PodMonitor "+serveID).Spec.PodMetricsEndpoints[0]
	assert.Nil(t, e.Scheme)
	assert.Nil(t, e.Authorization)

	const unmonitored = "podMonitor: {enabled: false}"
	annotations := func(section string) map[string]string {
		return get[appsv1.Deployment](t, rendered(t, servedBy(t, section, unmonitored)), "Deployment "+serveID).Spec.Template.Annotations
	}
	assert.Equal(t, "8082", annotations(open)["prometheus.io/port"])
	assert.Empty(t, annotations(secured), "an annotation has no token")
}

// TestServeNetworkPolicy: those who may send and Prometheus come in, and it comes to Kafka and to names only.
func TestServeNetworkPolicy(t *testing.T) {
	all := rendered(t, servedBy(t, secured))
	p := get[networkingv1.NetworkPolicy](t, all, "NetworkPolicy "+serveID).Spec
	assert.ElementsMatch(t, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}, p.PolicyTypes)
	in := func(namespace, app, port string) bool {
		return slices.ContainsFunc(p.Ingress, func(r networkingv1.NetworkPolicyIngressRule) bool {
			return admits(r.From, r.Ports, namespace, map[string]string{"app.kubernetes.io/name": app}, port)
		})
	}
	assert.True(t, in("shop", "any", "api"))
	assert.False(t, in("shop", "any", "22"))
	assert.True(t, in("monitoring", "prometheus", "api"))
	assert.False(t, in("monitoring", "grafana", "api"))
	assert.False(t, in("ranker", "any", "api"))
	out := func(address string) bool {
		host, port, err := net.SplitHostPort(address)
		require.NoError(t, err)
		_, namespace, _ := strings.Cut(host, ".")
		return slices.ContainsFunc(p.Egress, func(r networkingv1.NetworkPolicyEgressRule) bool {
			return admits(r.To, r.Ports, namespace, map[string]string{"k8s-app": "any"}, port)
		})
	}
	cfg := sound(t, "config.yaml", kubernetesConfigMap(t, all).Data["config.yaml"], kubernetesSecret)
	assert.True(t, out(cfg.Kafka.Brokers[0]))
	assert.False(t, out(cfg.Redis.Addresses[0]), "it has nothing to say to Redis")

	near := servedBy(t, secured)
	delete(near["serve"].(map[string]any), "clients")
	p = get[networkingv1.NetworkPolicy](t, rendered(t, near), "NetworkPolicy "+serveID).Spec
	assert.True(t, in("ranker", "any", "api"), "by default pods of the same namespace")
	assert.False(t, in("shop", "any", "api"))
	assert.NotContains(t, rendered(t, servedBy(t, secured, "networkPolicy: {enabled: false}")), "NetworkPolicy "+serveID)
}

// TestServeRefuses ports that no request or probe would reach, metrics that nobody could read, and values that make no sense.
func TestServeRefuses(t *testing.T) {
	for _, section := range []string{"", "serve: {listen: '127.0.0.1:8081'}\n"} {
		_, err := release(t, "ranker-worker", servedBy(t, section))
		require.ErrorContains(t, err, "serve.listen", section)
	}
	_, err := release(t, "ranker-worker", servedBy(t, secured, "serve: {metrics: {token: {secret: ''}}}"))
	require.ErrorContains(t, err, "serve.metrics.token.secret")
	for _, over := range []string{"enable: true", "replicas: -1", "mounts: [{name: x, path: /x}]", "resources: {limits: {memory: 1G}}",
		"autoscaling: {by: lag}", "service: {type: ExternalName}", "clients: []", "clients: [{}]", "metrics: {token: secret}"} {
		_, err := release(t, "ranker-worker", servedBy(t, secured, "serve: {"+over+"}"))
		assert.Error(t, err, over)
	}
}

// TestNotes name its address, and the ports without tokens.
func TestNotes(t *testing.T) {
	notes := func(v map[string]any) string {
		files, err := release(t, "ranker-worker", v)
		require.NoError(t, err)
		return files["ranker-worker/templates/NOTES.txt"]
	}
	quiet := notes(values(t, "values.yaml"))
	assert.Contains(t, quiet, "-n ranker rollout status deployment/ranker-worker")
	assert.NotContains(t, quiet, "/v1/rank")
	safe := notes(servedBy(t, secured))
	assert.Contains(t, safe, "https://ranker-worker-serve.ranker:8081/v1/rank")
	assert.NotContains(t, safe, "NO")
	loose := notes(servedBy(t, open, "networkPolicy: {enabled: false}"))
	assert.Contains(t, loose, "http://ranker-worker-serve.ranker:8082/v1/rank")
	for _, want := range []string{"NOBODY IS ASKED", "NO TLS", "NO NETWORK POLICY"} {
		assert.Contains(t, loose, want)
	}
}
