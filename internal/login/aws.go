package login

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-msk-iam-sasl-signer-go/signer"
	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
)

// awsTokens makes tokens for Amazon MSK. It signs them with the credentials that AWS' own tools would find: environment, profile, a service
// account's web identity, container or instance. It searches at the first connection, and again when they expire. Each connection has a
// token of its own, valid for a quarter of an hour.
func awsTokens(region string) (func(context.Context) (string, error), error) {
	var options []func(*awsconfig.LoadOptions) error
	if region != "" {
		options = append(options, awsconfig.WithRegion(region))
	}
	// Only the environment and the profiles' files, without network.
	found, err := awsconfig.LoadDefaultConfig(context.Background(), options...)
	if err != nil {
		return nil, fmt.Errorf("reading AWS' configuration: %w", err)
	}
	if found.Region == "" {
		return nil, errors.New("no AWS region is known: set region, or AWS_REGION")
	}
	return signed(found.Region, found.Credentials), nil
}

func signed(region string, credentials aws.CredentialsProvider) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		token, _, err := signer.GenerateAuthTokenFromCredentialsProvider(ctx, region, credentials)
		if err != nil {
			return "", fmt.Errorf("signing a token for Amazon MSK: %w", err)
		}
		return token, nil
	}
}
