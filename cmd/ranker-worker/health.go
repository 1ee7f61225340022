package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	neturl "net/url"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

func newHealthCommand() *cobra.Command {
	var (
		live    bool
		serve   bool
		timeout = 3 * time.Second
	)
	cmd := verb(configFlag, &cobra.Command{
		Use:   "health [--config FILE] [--live] [--serve]",
		Short: "Ask a worker on this machine whether it is ready",
		Long: `Ask the worker that runs on this machine with the same configuration whether it is ready (/readyz), or with
--live whether it is alive (/livez); with --serve not the worker is asked, but "ranker-worker serve". The exit code is 0 if it is.
This is the health check of containers, which have no shell and no curl.`,
		Example: `  ranker-worker health --config worker.yaml
  ranker-worker health --config worker.yaml --live
  ranker-worker health --config worker.yaml --serve`,
	}, func(c *call) error {
		cfg, err := c.load()
		if err != nil {
			return err
		}
		if cfg.HTTP.Listen == "" && !serve {
			return fmt.Errorf("%s is empty: the worker has no HTTP server to ask", cfg.Where("http.listen"))
		}
		path := "/readyz"
		if live {
			path = "/livez"
		}
		client := &http.Client{Timeout: timeout, Transport: &http.Transport{DisableKeepAlives: true}}
		url, who, key := localURL(cfg.HTTP.Listen), "worker", "http.listen"
		if serve {
			url, who, key = localURL(cfg.Serve.Listen), "server", "serve.listen"
			if cfg.Serve.CertFile != "" {
				url = "https" + strings.TrimPrefix(url, "http")
				// The certificate does not name loopback. The request holds no secret.
				client.Transport = &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
			}
		}
		return askHealth(c, client, url+path, fmt.Sprintf("no %s listens at %s: is it running, and is %s right?", who, url, cfg.Where(key)))
	})
	cmd.Flags().BoolVar(&live, "live", false, "ask /livez instead of /readyz")
	cmd.Flags().BoolVar(&serve, "serve", false, "ask the server at serve.listen")
	cmd.Flags().Var((*duration)(&timeout), "timeout", "give up after this long")
	return cmd
}

// localURL returns the URL on this machine of a server that listens on address.
func localURL(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "http://" + address
	}
	if a, err := netip.ParseAddr(host); host == "" || err == nil && a.IsUnspecified() {
		host = "localhost" // either family
	}
	return "http://" + net.JoinHostPort(host, port)
}

// askHealth prints a server's answer, and fails unless it is good; absent is the error if no server listens.
func askHealth(c *call, client *http.Client, url, absent string) error {
	request, err := http.NewRequestWithContext(c.ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("asking %s: %w", url, err)
	}
	response, err := client.Do(request)
	if err != nil {
		if named := (*neturl.Error)(nil); errors.As(err, &named) {
			err = named.Err
		}
		if errors.Is(err, syscall.ECONNREFUSED) {
			return errors.New(absent)
		}
		return fmt.Errorf("%s does not answer: %v", url, err) // wrapped, it would be explained as an error of Kafka's connection
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if text := strings.TrimSpace(string(body)); text != "" {
		fmt.Fprintln(c.out(), text)
	}
	if response.StatusCode != http.StatusOK {
		return errors.Join(fmt.Errorf("%s answers %s", url, response.Status), err)
	}
	return err
}
