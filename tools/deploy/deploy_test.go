package deploy

import (
	"context"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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

// configPath is where every image, manifest and command line here agrees that the configuration is.
const configPath = "/etc/ranker/config.yaml"

// nonRoot is the numeric user that distroless calls nonroot.
const nonRoot = "65532"

// sound loads a configuration that must have neither faults nor warnings other than those expected.
func sound(t *testing.T, name, file string, env map[string]string, expected ...string) *config.Config {
	t.Helper()
	cfg, warnings, err := config.Load(name, []byte(file), func(v string) (string, bool) { s, ok := env[v]; return s, ok })
	require.NoError(t, err)
	var keys []string
	for _, w := range warnings {
		keys = append(keys, w.Key)
	}
	assert.ElementsMatch(t, expected, keys, "warnings: %v", warnings)
	return cfg
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}

// manifest is what these files have in common with all of Kubernetes' types.
type manifest struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metav1.ObjectMeta `json:"metadata"`
}

// kinds are Kubernetes' own types of what is deployed here.
var kinds = map[string]func() any{
	"v1 Namespace":                           func() any { return new(corev1.Namespace) },
	"v1 ConfigMap":                           func() any { return new(corev1.ConfigMap) },
	"v1 Secret":                              func() any { return new(corev1.Secret) },
	"v1 Service":                             func() any { return new(corev1.Service) },
	"apps/v1 Deployment":                     func() any { return new(appsv1.Deployment) },
	"batch/v1 Job":                           func() any { return new(batchv1.Job) },
	"policy/v1 PodDisruptionBudget":          func() any { return new(policyv1.PodDisruptionBudget) },
	"autoscaling/v2 HorizontalPodAutoscaler": func() any { return new(autoscalingv2.HorizontalPodAutoscaler) },
	"networking.k8s.io/v1 NetworkPolicy":     func() any { return new(networkingv1.NetworkPolicy) },
}

var separator = regexp.MustCompile(`(?m)^---\s*$`)

// manifests decodes every document of kubernetes/ strictly: an unknown, misspelt or repeated field is an error.
func manifests(t *testing.T) map[string]any {
	t.Helper()
	out := map[string]any{}
	for _, pattern := range []string{"kubernetes/*.yaml", "kubernetes/*.yaml.example"} {
		paths, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, paths)
		for _, path := range paths {
			for _, doc := range separator.Split(read(t, path), -1) {
				var m manifest
				require.NoError(t, yaml.Unmarshal([]byte(doc), &m), path)
				make, known := kinds[m.APIVersion+" "+m.Kind]
				require.True(t, known, "%s: %s %s", path, m.APIVersion, m.Kind)
				object := make()
				require.NoError(t, yaml.UnmarshalStrict([]byte(doc), object), path)
				id := m.Kind + " " + m.Metadata.Name
				require.NotContains(t, out, id, path)
				if m.Kind != "Namespace" {
					assert.Equal(t, "ranker", m.Metadata.Namespace, path)
				}
				out[id] = object
			}
		}
	}
	return out
}

// get finds a manifest by its kind and name.
func get[T any](t *testing.T, all map[string]any, id string) *T {
	t.Helper()
	require.Contains(t, all, id)
	object, ok := all[id].(*T)
	require.True(t, ok)
	return object
}

func TestKubernetesManifestsDecodeStrictly(t *testing.T) {
	all := manifests(t)
	assert.Len(t, all, 9)
	var d appsv1.Deployment
	assert.Error(t, yaml.UnmarshalStrict([]byte("spec: {replica: 1}"), &d), "the check itself can fail")
}

// TestKubernetesProbes: probes go to the port that the configuration listens on, and to the paths that exist.
func TestKubernetesProbes(t *testing.T) {
	all := manifests(t)
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

// TestKubernetesSelectors: service, budget, autoscaler and deployment speak of the same pods.
func TestKubernetesSelectors(t *testing.T) {
	all := manifests(t)
	d := get[appsv1.Deployment](t, all, "Deployment ranker-worker")
	labels := d.Spec.Template.Labels
	assert.Equal(t, labels, d.Spec.Selector.MatchLabels)
	assert.Equal(t, labels, get[corev1.Service](t, all, "Service ranker-worker").Spec.Selector)
	assert.Equal(t, labels, get[policyv1.PodDisruptionBudget](t, all, "PodDisruptionBudget ranker-worker").Spec.Selector.MatchLabels)
	job := get[batchv1.Job](t, all, "Job ranker-topics")
	assert.NotEqual(t, labels, job.Spec.Template.Labels, "a job's pod is not a worker")
	h := get[autoscalingv2.HorizontalPodAutoscaler](t, all, "HorizontalPodAutoscaler ranker-worker")
	assert.Equal(t, d.Name, h.Spec.ScaleTargetRef.Name)
	partitions := slices.Index(job.Spec.Template.Spec.Containers[0].Args, "--partitions")
	assert.Equal(t, job.Spec.Template.Spec.Containers[0].Args[partitions+1], "6")
	assert.EqualValues(t, 6, h.Spec.MaxReplicas, "no more replicas than partitions")
}

// TestKubernetesPodsAreConfined: no root, no writable file system, no capability, no token, and what restricted asks.
func TestKubernetesPodsAreConfined(t *testing.T) {
	all := manifests(t)
	secret := get[corev1.Secret](t, all, "Secret ranker-worker")
	for name, pod := range map[string]corev1.PodSpec{
		"deployment": get[appsv1.Deployment](t, all, "Deployment ranker-worker").Spec.Template.Spec,
		"job":        get[batchv1.Job](t, all, "Job ranker-topics").Spec.Template.Spec,
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
		assert.Equal(t, secret.Name, c.EnvFrom[0].SecretRef.Name, name)
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

// TestKubernetesRollsOut one worker after the other, with time to drain, and anew when the configuration changes: which is
// a ConfigMap of another name, so that no pod has it before its turn and there is a way back.
func TestKubernetesRollsOut(t *testing.T) {
	all := manifests(t)
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
	assert.Regexp(t, `^ranker-worker-\d+$`, m.Name)
	job := get[batchv1.Job](t, all, "Job ranker-topics")
	for _, pod := range []corev1.PodSpec{d.Spec.Template.Spec, job.Spec.Template.Spec} {
		at := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == "config" })
		require.GreaterOrEqual(t, at, 0)
		assert.Equal(t, m.Name, pod.Volumes[at].ConfigMap.Name)
	}
}

// TestKubernetesNetworkPolicy: nobody but Prometheus comes in, on the port of probes and metrics; and workers come to the
// Kafka and the Redis of their configuration, to names, and no further.
func TestKubernetesNetworkPolicy(t *testing.T) {
	all := manifests(t)
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

// admits tells whether a rule is for a pod with these labels, in a namespace of this name, and for the port. A rule without
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

// kubernetesConfigMap is that of the workers, whatever its number.
func kubernetesConfigMap(t *testing.T, all map[string]any) *corev1.ConfigMap {
	t.Helper()
	for id := range all {
		if strings.HasPrefix(id, "ConfigMap ranker-worker") {
			return get[corev1.ConfigMap](t, all, id)
		}
	}
	require.Fail(t, "no ConfigMap of the workers")
	return nil
}

// kubernetesConfig is the configuration of the ConfigMap, loaded with the Secret's variables and no others.
func kubernetesConfig(t *testing.T, all map[string]any) *config.Config {
	t.Helper()
	m := kubernetesConfigMap(t, all)
	s := get[corev1.Secret](t, all, "Secret ranker-worker")
	require.Contains(t, m.Data, filepath.Base(configPath))
	return sound(t, "configmap.yaml", m.Data[filepath.Base(configPath)], s.StringData)
}

// TestKubernetesConfig: the configuration is sound, and the certificates that it names are mounted.
func TestKubernetesConfig(t *testing.T) {
	all := manifests(t)
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

// project parses compose.yaml by Compose's own library, schema and references included.
func project(t *testing.T) *types.Project {
	t.Helper()
	dir, err := filepath.Abs(".")
	require.NoError(t, err)
	p, err := loader.LoadWithContext(context.Background(), types.ConfigDetails{
		WorkingDir:  dir,
		ConfigFiles: []types.ConfigFile{{Filename: filepath.Join(dir, "compose.yaml")}},
		Environment: types.Mapping{},
	})
	require.NoError(t, err)
	return p
}

func TestComposeFile(t *testing.T) {
	p := project(t)
	services := p.ServiceNames()
	slices.Sort(services)
	assert.Equal(t, []string{"kafka", "redis", "topics", "worker"}, services)
	for name, s := range p.Services {
		assert.Empty(t, s.NetworkMode, "%s: in the project's own network, which no other container is in", name)
		assert.Equal(t, []string{"default"}, slices.Collect(maps.Keys(s.Networks)), name)
		for _, port := range s.Ports {
			assert.Equal(t, "127.0.0.1", port.HostIP, "%s: ports are bound to loopback", name)
		}
		if name != "topics" {
			require.NotNil(t, s.HealthCheck, name)
			assert.NotEmpty(t, s.HealthCheck.Test, name)
			assert.Equal(t, "unless-stopped", s.Restart, name)
		}
	}
	redis := strings.Join(p.Services["redis"].Command, " ")
	for _, flag := range []string{"--maxmemory-policy noeviction", "--appendonly yes", "--hash-max-listpack-value 512"} {
		assert.Contains(t, redis, flag)
	}
	kafka := p.Services["kafka"]
	assert.Regexp(t, `^apache/kafka:4\.`, kafka.Image)
	assert.Equal(t, "broker,controller", *kafka.Environment["KAFKA_PROCESS_ROLES"], "KRaft")
	worker, topics := p.Services["worker"], p.Services["topics"]
	assert.Equal(t, types.ServiceConditionCompletedSuccessfully, worker.DependsOn["topics"].Condition)
	assert.Equal(t, types.ServiceConditionHealthy, worker.DependsOn["redis"].Condition)
	assert.Equal(t, types.ServiceConditionHealthy, topics.DependsOn["kafka"].Condition)
	assert.Contains(t, topics.Command, "--create")
	assert.Equal(t, worker.Image, topics.Image)
	assert.True(t, worker.ReadOnly)
	_, err := os.Stat(filepath.Join(worker.Build.Context, worker.Build.Dockerfile))
	assert.NoError(t, err, "the Dockerfile is where the build looks for it")
}

// TestComposeConfig: the file that is mounted is sound in the containers' environment, and names the services.
func TestComposeConfig(t *testing.T) {
	p := project(t)
	for _, name := range []string{"worker", "topics"} {
		s := p.Services[name]
		require.Len(t, s.Configs, 1)
		assert.Equal(t, configPath, s.Configs[0].Target)
		env := map[string]string{}
		for k, v := range s.Environment {
			env[k] = *v
		}
		file := p.Configs[s.Configs[0].Source].File
		// Inside the containers' own network, Redis's password is in the clear.
		cfg := sound(t, file, read(t, file), env, "redis.url")
		assert.Equal(t, []string{"kafka:9092"}, cfg.Kafka.Brokers)
		assert.Equal(t, []string{"redis:6379"}, cfg.Redis.Addresses)
		assert.Contains(t, strings.Join(p.Services["redis"].Command, " "), "--requirepass "+string(cfg.Redis.Password))
		assert.Equal(t, ":9108", strings.TrimPrefix(cfg.HTTP.Listen, "0.0.0.0"))
	}
	for _, port := range p.Services["worker"].Ports {
		assert.EqualValues(t, 9108, port.Target)
	}
}

// TestSampleConfig: outside of containers, with no more than a password set, the sample is for this machine.
func TestSampleConfig(t *testing.T) {
	cfg := sound(t, "config.yaml", read(t, "config.yaml"), map[string]string{"REDIS_PASSWORD": "x"})
	assert.Equal(t, []string{"127.0.0.1:9092"}, cfg.Kafka.Brokers)
	assert.Equal(t, []string{"127.0.0.1:6379"}, cfg.Redis.Addresses)
}

// instruction is one of a Dockerfile, with continued lines joined.
type instruction struct{ name, rest string }

func dockerfile(t *testing.T) []instruction {
	t.Helper()
	var out []instruction
	joined := strings.ReplaceAll(read(t, "Dockerfile"), "\\\n", " ")
	for _, line := range strings.Split(joined, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, rest, _ := strings.Cut(line, " ")
		out = append(out, instruction{name, strings.Join(strings.Fields(rest), " ")})
	}
	return out
}

// TestDockerfile: a static build, and a last stage with nothing in it but the binary and a user without rights.
func TestDockerfile(t *testing.T) {
	known := []string{"FROM", "WORKDIR", "COPY", "RUN", "ARG", "USER", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD"}
	var stages []string
	last := map[string]string{}
	static, toolchain := false, ""
	for _, in := range dockerfile(t) {
		require.Contains(t, known, in.name)
		if in.name == "FROM" {
			stages = append(stages, in.rest)
			last = map[string]string{}
		}
		if len(stages) == 1 && in.name == "RUN" && strings.Contains(in.rest, "go build") {
			static = strings.Contains(in.rest, "CGO_ENABLED=0") && strings.Contains(in.rest, "-trimpath") &&
				strings.Contains(in.rest, "-o /out/ranker-worker ./cmd/ranker-worker")
		}
		last[in.name] = in.rest
	}
	require.Len(t, stages, 2)
	assert.True(t, static)
	assert.Regexp(t, `^gcr\.io/distroless/static-debian1\d:nonroot$`, stages[1])
	assert.Equal(t, nonRoot+":"+nonRoot, last["USER"])
	assert.NotContains(t, last, "RUN", "there is no shell to run it")
	assert.Equal(t, "--from=build /out/ranker-worker /usr/local/bin/ranker-worker", last["COPY"])
	assert.Equal(t, "9108", last["EXPOSE"])
	assert.Equal(t, `["/usr/local/bin/ranker-worker"]`, last["ENTRYPOINT"], "exec form: signals reach the worker")
	assert.Equal(t, `["run", "--config", "`+configPath+`"]`, last["CMD"])
	assert.Contains(t, last["HEALTHCHECK"], `CMD ["/usr/local/bin/ranker-worker", "health", "--config", "`+configPath+`"`)

	if m := regexp.MustCompile(`golang:(\d+\.\d+)`).FindStringSubmatch(stages[0]); assert.NotNil(t, m) {
		toolchain = m[1]
	}
	goMod := read(t, filepath.Join("..", "go.mod"))
	assert.Regexp(t, `(?m)^go `+regexp.QuoteMeta(toolchain)+`(\.|$)`, goMod, "the image has the Go that go.mod asks for")
}
