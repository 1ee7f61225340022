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
		url := localURL(cfg.HTTP.Listen)
		if serve {
			url = localURL(cfg.Serve.Listen)
			if cfg.Serve.CertFile != "" {
				url = "https" + strings.TrimPrefix(url, "http")
				// The certificate does not name loopback. The request holds no secret.
				client.Transport = &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
			}
		}
		return askHealth(c, client, url+path)
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

func askHealth(c *call, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(c.ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("asking %s: %w", url, err)
	}
	response, err := client.Do(request)
	if err != nil {
		if named := (*neturl.Error)(nil); errors.As(err, &named) {
			err = named.Err
		}
		return fmt.Errorf("%s does not answer: %w", url, err)
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
