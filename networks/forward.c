/* The outputs of small multilayer perceptrons for a few inputs each, without the overhead of calling PyTorch.

Let the compiler reorder sums: the order is the same in every call of what it has made. */

#include <math.h>
#include <stdint.h>

enum { MOST_LAYERS = 16, MOST_UNITS = 1024 };

struct network {
    int64_t members, layers, sizes[MOST_LAYERS + 1];  /* networks; linear layers; numbers before and after each */
    const float *weights[MOST_LAYERS];                /* (members, outputs, inputs) each */
    const float *biases[MOST_LAYERS];                 /* (members, outputs) each */
    float slopes[MOST_LAYERS];                        /* of the activation after a layer below 0; NaN for tanh */
};

/* inputs: (members, n, sizes[0]); outputs: (members, n, sizes[layers]) */
void run_network(const struct network *net, int64_t n, const float *inputs, float *outputs)
{
    float units[2][MOST_UNITS];
    for (int64_t row = 0; row < net->members * n; row++) {
        const float *x = inputs + row * net->sizes[0];
        for (int64_t layer = 0; layer < net->layers; layer++) {
            int64_t d_in = net->sizes[layer], d_out = net->sizes[layer + 1], member = row / n;
            const float *weight = net->weights[layer] + member * d_in * d_out;
            const float *bias = net->biases[layer] + member * d_out;
            float *y = layer + 1 < net->layers ? units[layer % 2] : outputs + row * d_out, slope = net->slopes[layer];
            for (int64_t i = 0; i < d_out; i++) {
                float sum = 0;
                for (int64_t j = 0; j < d_in; j++) sum += weight[i * d_in + j] * x[j];
                y[i] = sum + bias[i];
            }
            if (isnan(slope))
                for (int64_t i = 0; i < d_out; i++) y[i] = tanhf(y[i]);
            else if (slope != 1)
                for (int64_t i = 0; i < d_out; i++) y[i] = y[i] > 0 ? y[i] : slope * y[i];
            x = y;
        }
    }
}
