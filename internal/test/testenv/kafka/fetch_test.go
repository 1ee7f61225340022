package kafka

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVersionIsAKafka4(t *testing.T) {
	require.Regexp(t, `^4\.\d+\.\d+$`, Version)
}

func TestMissingMavenAndJavaSayWhatToInstall(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("JAVA_HOME", "")
	t.Setenv(CacheEnv, t.TempDir())

	_, err := Fetch(t.Context())
	require.ErrorIs(t, err, ErrMissing)
	require.ErrorContains(t, err, "apt-get install maven")
	require.NotContains(t, err.Error(), "\n")

	_, err = Java(t.Context())
	require.ErrorIs(t, err, ErrMissing)
	require.ErrorContains(t, err, "apt-get install openjdk-17-jre-headless")
	require.NotContains(t, err.Error(), "\n")
}

func TestOldJavaIsRefused(t *testing.T) {
	home := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(home, "bin"), 0o755))
	java := filepath.Join(home, "bin", "java")
	t.Setenv("JAVA_HOME", home)
	for version, ok := range map[string]bool{"1.8.0_392": false, "11.0.22": false, "17.0.15": true, "21": true} {
		script := "#!/bin/sh\necho 'openjdk version \"" + version + "\" 2025-04-15' >&2\n"
		require.NoError(t, os.WriteFile(java, []byte(script), 0o755))
		_, err := Java(t.Context())
		if ok {
			require.NoError(t, err, version)
		} else {
			require.ErrorIs(t, err, ErrMissing, version)
		}
	}
}

func TestIncompleteCacheIsNotUsed(t *testing.T) {
	dir := t.TempDir()
	require.False(t, complete(dir), "empty")
	require.NoError(t, os.WriteFile(filepath.Join(dir, stampFile), []byte("of another pom\n"), 0o600))
	require.False(t, complete(dir), "of another pom")
	require.NoError(t, os.WriteFile(filepath.Join(dir, stampFile), []byte(stamp()), 0o600))
	require.True(t, complete(dir))
}

func TestMavenFaultIsOneLine(t *testing.T) {
	out := "[ERROR] \n[ERROR] Failed to execute goal\n[WARNING] x\n[ERROR] a\n[ERROR] b\n[ERROR] c\n"
	require.Equal(t, "[ERROR] Failed to execute goal [ERROR] a [ERROR] b", firstErrors(out))
	require.Equal(t, "no such option", firstErrors("no such option\n"))
}

func TestClusterIDIsNoOption(t *testing.T) {
	for range 10_000 {
		id := newClusterID()
		require.Len(t, id, 22)
		require.NotEqual(t, byte('-'), id[0])
	}
}
