package deploy

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/ranker-worker/ranker-worker/config"
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
	assert.Equal(t, []string{"generate", "grafana", "kafka", "prometheus", "redis", "serve", "topics", "worker"}, services)
	for name, s := range p.Services {
		assert.Empty(t, s.NetworkMode, "%s: in the project's own network, which no other container is in", name)
		assert.Equal(t, []string{"default"}, slices.Collect(maps.Keys(s.Networks)), name)
		for _, port := range s.Ports {
			assert.Equal(t, "127.0.0.1", port.HostIP, "%s: ports are bound to loopback", name)
		}
		require.NotNil(t, s.HealthCheck, name)
		if name == "topics" || name == "generate" { // they serve nothing, so the image's own check would fail
			assert.True(t, s.HealthCheck.Disable, name)
		} else {
			assert.NotEmpty(t, s.HealthCheck.Test, name)
		}
		assert.Equal(t, name != "topics", s.Restart == "unless-stopped", name)
		if s.Build == nil {
			assert.Regexp(t, `:v?\d+(\.\d+)+(-|$)`, s.Image, "%s: by version", name)
		}
		for _, c := range s.Configs {
			_, err := os.Stat(p.Configs[c.Source].File)
			assert.NoError(t, err, name)
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
	require.Len(t, worker.Ports, 1)
	first, _, _ := strings.Cut(worker.Ports[0].Published, "-")
	link, _, _ := strings.Cut(strings.SplitN(read(t, "README.md"), "](", 2)[1], ")")
	assert.Equal(t, "http://localhost:"+first, link, "the live page is named first")
	assert.Equal(t, types.ServiceConditionCompletedSuccessfully, worker.DependsOn["topics"].Condition)
	assert.Equal(t, types.ServiceConditionHealthy, worker.DependsOn["redis"].Condition)
	assert.Equal(t, types.ServiceConditionHealthy, topics.DependsOn["kafka"].Condition)
	assert.Contains(t, topics.Command, "--create")
	generate := p.Services["generate"]
	assert.Equal(t, types.ServiceConditionCompletedSuccessfully, generate.DependsOn["topics"].Condition)
	assert.Equal(t, "generate", generate.Command[0])
	for _, own := range []types.ServiceConfig{topics, generate} {
		assert.Equal(t, worker.Image, own.Image)
		assert.Equal(t, worker.Build, own.Build)
	}
	assert.True(t, generate.ReadOnly)
	assert.Contains(t, worker.Build.Args, "VERSION")
	assert.True(t, worker.ReadOnly)
	_, err := os.Stat(filepath.Join(worker.Build.Context, worker.Build.Dockerfile))
	assert.NoError(t, err, "the Dockerfile is where the build looks for it")
}

// TestComposeConfig: the file that is mounted is sound in the containers' environment, and names the services.
func TestComposeConfig(t *testing.T) {
	p := project(t)
	for _, name := range []string{"worker", "topics", "generate"} {
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
	serve := p.Services["serve"]
	env := map[string]string{}
	for k, v := range serve.Environment {
		env[k] = *v
	}
	file := p.Configs[serve.Configs[0].Source].File
	// A port published on loopback only needs no tokens.
	cfg := sound(t, file, read(t, file), env, "redis.url", "serve.listen")
	assert.Equal(t, "0.0.0.0:8081", cfg.Serve.Listen)
	require.Len(t, serve.Ports, 1)
	assert.EqualValues(t, 8081, serve.Ports[0].Target)
	assert.True(t, serve.ReadOnly)
}

// prometheusConfig is the form of Prometheus' configuration, as far as it is used here.
type prometheusConfig struct {
	Global struct {
		ScrapeInterval     model.Duration `json:"scrape_interval"`
		EvaluationInterval model.Duration `json:"evaluation_interval"`
	} `json:"global"`
	RuleFiles     []string `json:"rule_files"`
	ScrapeConfigs []struct {
		JobName      string `json:"job_name"`
		DNSSDConfigs []struct {
			Names           []string       `json:"names"`
			Type            string         `json:"type"`
			Port            int            `json:"port"`
			RefreshInterval model.Duration `json:"refresh_interval"`
		} `json:"dns_sd_configs"`
	} `json:"scrape_configs"`
}

// datasources and dashboards are the forms of Grafana's provisioning, likewise.
type (
	datasources struct {
		APIVersion  int `json:"apiVersion"`
		Datasources []struct {
			Name      string            `json:"name"`
			UID       string            `json:"uid"`
			Type      string            `json:"type"`
			Access    string            `json:"access"`
			URL       string            `json:"url"`
			IsDefault bool              `json:"isDefault"`
			JSONData  map[string]string `json:"jsonData"`
		} `json:"datasources"`
	}
	dashboards struct {
		APIVersion int `json:"apiVersion"`
		Providers  []struct {
			Name     string            `json:"name"`
			Type     string            `json:"type"`
			Interval int               `json:"updateIntervalSeconds"`
			Options  map[string]string `json:"options"`
		} `json:"providers"`
	}
)

// mounted is the file that a service finds at a path.
func mounted(t *testing.T, p *types.Project, service, target string) string {
	t.Helper()
	s := p.Services[service]
	at := slices.IndexFunc(s.Configs, func(c types.ServiceConfigObjConfig) bool { return c.Target == target })
	require.GreaterOrEqual(t, at, 0, "%s has no %s", service, target)
	return p.Configs[s.Configs[at].Source].File
}

// TestComposeMonitoring: Prometheus finds the workers and the alerts, Grafana finds Prometheus and the dashboard.
func TestComposeMonitoring(t *testing.T) {
	p := project(t)
	var c prometheusConfig
	require.NoError(t, yaml.UnmarshalStrict([]byte(read(t, mounted(t, p, "prometheus", "/etc/prometheus/prometheus.yaml"))), &c))
	assert.Contains(t, p.Services["prometheus"].Command, "--config.file=/etc/prometheus/prometheus.yaml")
	require.Len(t, c.RuleFiles, 1)
	assert.Equal(t, read(t, "chart/files/alerts.yaml"), read(t, mounted(t, p, "prometheus", c.RuleFiles[0])))
	var scraped []string
	for _, s := range c.ScrapeConfigs {
		require.Len(t, s.DNSSDConfigs, 1)
		d := s.DNSSDConfigs[0]
		require.Len(t, d.Names, 1)
		scraped = append(scraped, d.Names[0])
		require.Contains(t, p.Services, d.Names[0])
		assert.EqualValues(t, p.Services[d.Names[0]].Ports[0].Target, d.Port)
	}
	assert.Equal(t, []string{"worker", "serve"}, scraped)

	var sources datasources
	require.NoError(t, yaml.UnmarshalStrict([]byte(read(t, mounted(t, p, "grafana", "/etc/grafana/provisioning/datasources/ranker-worker.yaml"))), &sources))
	require.Len(t, sources.Datasources, 1)
	assert.True(t, sources.Datasources[0].IsDefault, "the dashboard's variable begins with it")
	assert.Equal(t, "prometheus", sources.Datasources[0].Type)
	assert.Equal(t, "http://prometheus:"+strconv.Itoa(int(p.Services["prometheus"].Ports[0].Target)), sources.Datasources[0].URL)
	var boards dashboards
	require.NoError(t, yaml.UnmarshalStrict([]byte(read(t, mounted(t, p, "grafana", "/etc/grafana/provisioning/dashboards/ranker-worker.yaml"))), &boards))
	require.Len(t, boards.Providers, 1)
	home := *p.Services["grafana"].Environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
	assert.Equal(t, boards.Providers[0].Options["path"], filepath.Dir(home))
	assert.Equal(t, read(t, "chart/files/dashboard.json"), read(t, mounted(t, p, "grafana", home)))
}

// TestSampleConfig: outside of containers, with no more than a password set, the sample is for this machine.
func TestSampleConfig(t *testing.T) {
	cfg := sound(t, "config.yaml", read(t, "config.yaml"), map[string]string{"REDIS_PASSWORD": "x"})
	assert.Equal(t, []string{"127.0.0.1:9092"}, cfg.Kafka.Brokers)
	assert.Equal(t, []string{"127.0.0.1:6379"}, cfg.Redis.Addresses)
	for _, name := range regexp.MustCompile(`[\w/.-]+\.yaml`).FindAllString(read(t, "config.yaml"), -1) { // files that its comments name
		read(t, name)
	}
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

// TestDockerfile: a static build that says its version, and nothing of the machine that it was made on. The last stage has only the binary,
// and a user without rights.
func TestDockerfile(t *testing.T) {
	known := []string{"FROM", "WORKDIR", "COPY", "RUN", "ARG", "ENV", "LABEL", "USER", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD"}
	var stages, args [][]string
	arguments := map[string]string{}
	last := map[string]string{}
	build := ""
	for _, in := range dockerfile(t) {
		require.Contains(t, known, in.name)
		switch {
		case in.name == "FROM":
			stages, args = append(stages, strings.Fields(in.rest)), append(args, nil)
			last = map[string]string{}
		case in.name == "ARG" && len(stages) == 0:
			name, value, _ := strings.Cut(in.rest, "=")
			arguments["${"+name+"}"] = value
		case in.name == "ARG":
			name, _, _ := strings.Cut(in.rest, "=")
			args[len(args)-1] = append(args[len(args)-1], name)
		case in.name == "RUN" && strings.Contains(in.rest, "go build"):
			build = in.rest
		}
		last[in.name] = in.rest
	}
	require.Len(t, stages, 2)
	for _, want := range []string{"CGO_ENABLED=0", "-trimpath", "-buildvcs=false", "-mod=readonly", "-o /out/ranker-worker ./cmd/ranker-worker",
		"-X main.version=$VERSION -X main.commit=$COMMIT -X main.date=$(date -u -d \"@$SOURCE_DATE_EPOCH\" +%Y-%m-%dT%H:%M:%SZ)", `touch -d "@$SOURCE_DATE_EPOCH" /out/ranker-worker`} {
		assert.Contains(t, build, want)
	}
	for _, name := range []string{"VERSION", "COMMIT", "SOURCE_DATE_EPOCH"} {
		assert.Contains(t, args[0], name)
		assert.Contains(t, read(t, "../Makefile"), "--build-arg "+name+"=")
	}
	assert.Equal(t, []string{"${BASE_IMAGE}"}, stages[1])
	assert.Regexp(t, `^gcr\.io/distroless/static-debian1\d:nonroot(@sha256:[0-9a-f]{64})?$`, arguments["${BASE_IMAGE}"])
	assert.Equal(t, nonRoot+":"+nonRoot, last["USER"])
	assert.NotContains(t, last, "RUN", "there is no shell to run it")
	assert.Equal(t, "--from=build /out/ranker-worker /usr/local/bin/ranker-worker", last["COPY"])
	assert.Equal(t, "9108", last["EXPOSE"])
	assert.Equal(t, `["/usr/local/bin/ranker-worker"]`, last["ENTRYPOINT"], "exec form: signals reach the worker")
	assert.Equal(t, `["run", "--config", "`+configPath+`"]`, last["CMD"])
	assert.Contains(t, last["HEALTHCHECK"], `CMD ["/usr/local/bin/ranker-worker", "health", "--config", "`+configPath+`"`)
	assert.Contains(t, last["LABEL"], `org.opencontainers.image.version="$VERSION"`)

	require.Len(t, stages[0], 4)
	m := regexp.MustCompile(`^golang:((\d+\.\d+)\.\d+)(@sha256:[0-9a-f]{64})?$`).FindStringSubmatch(arguments[stages[0][1]])
	require.NotNil(t, m, "by its whole version")
	goMod := read(t, filepath.Join("..", "go.mod"))
	assert.Regexp(t, `(?m)^go `+regexp.QuoteMeta(m[2])+`(\.|$)`, goMod, "the image has the Go that go.mod asks for")
}
