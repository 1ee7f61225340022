package doctor

import (
	"context"

	"github.com/ranker-worker/ranker-worker/internal/app"
)

// registry makes a worker's request for a schema. Without Avro no worker has one.
func (d *doctor) registry(ctx context.Context) {
	const area = "registry"
	reader, err := app.NewRegistry(d.cfg)
	if err == nil && reader == nil {
		return
	}
	if err == nil {
		err = reader.Check(ctx)
	}
	if err != nil {
		d.add(Fault, area, "%s gives no schemas, and Avro records would wait: %v; see kafka.schema_registry", d.cfg.Kafka.SchemaRegistry.URL, err)
		return
	}
	d.add(OK, area, "%s answers a worker's request for a schema", d.cfg.Kafka.SchemaRegistry.URL)
}
