/* Steps of PPO's agents in tasks that are stepped in C, while no episode ends. Compile without contraction. */

#include <math.h>
#include <stdint.h>
#include <string.h>

struct statistics { double *mean, *variance; double count, epsilon, clip; };  /* (members, size) each; mean NULL: none */

struct collector {
    int64_t members, rows, size, outputs, real;  /* rows of all members; numbers of an observation; real actions */
    void *network, *task;                        /* `struct network` of forward.c, `struct rows` of classic.c */
    void (*run_network)(void *, int64_t, const float *, float *);
    int64_t (*take_step)(void *, const void *, int64_t);
    const float *noise, *deviation;              /* (steps, rows, outputs); of real actions, (members, outputs) */
    float *observed, *output;                    /* the rollout's: (steps, rows, size), (steps, rows, outputs) */
    void *action;                                /* (steps, rows) of int64_t, or (steps, rows, outputs) of float */
    double *rewards;                             /* (steps, rows) */
    float *current, *shown;                      /* observations as the network reads them, and as the task gives them */
    double *reward;                              /* of the task, (rows) */
    double scale, gamma, *returns;               /* of rewards; their discounted sums, (rows) */
    struct statistics of_observations, of_rewards;
};

/* Return the sum of n ≤ 128 numbers x[0], x[step], …; in eight parts, as NumPy does if they are all the numbers. */
static double sum(const double *x, int64_t n, int64_t step, int parts)
{
    int64_t begun = parts && n >= 8 ? 8 : 1;
    double part[8] = {x[0]};
    for (int64_t i = 1; i < begun; i++) part[i] = x[i];
    if (begun == 8) {
        for (; begun < n - n % 8; begun += 8)
            for (int64_t i = 0; i < 8; i++) part[i] += x[begun + i];
        part[0] = ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
    }
    for (; begun < n; begun++) part[0] += x[begun * step];
    return part[0];
}

/* Count the vectors of all members' copies, (members, n, size). `RunningMeanStd.update` has the same operations. */
static void count(struct statistics *s, int64_t members, int64_t n, int64_t size, const double *values)
{
    double total = s->count + n, squares[n];
    for (int64_t at = 0; at < members * size; at++) {
        const double *x = values + at / size * n * size + at % size;
        double mean = n == 1 ? x[0] : sum(x, n, size, size == 1) / n, delta = mean - s->mean[at];
        double spread = s->variance[at] * s->count;
        for (int64_t i = 0; i < n; i++) squares[i] = (x[i * size] - mean) * (x[i * size] - mean);
        if (n > 1) spread += sum(squares, n, 1, size == 1) / n * n;
        spread += delta * delta * (s->count * n / total);
        s->mean[at] += delta * (n / total);
        s->variance[at] = spread / total;
    }
    s->count = total;
}

static double clip(double x, double most) { return x < -most ? -most : x > most ? most : x; }

/* Choose the actions for the outputs of a step. Return 0 if an output is no number. */
static int choose(struct collector *c, int64_t step)
{
    for (int64_t row = 0; row < c->rows; row++) {
        int64_t at = (step * c->rows + row) * c->outputs, best = 0;
        const float *deviation = c->real ? c->deviation + row / (c->rows / c->members) * c->outputs : NULL;
        float most = 0;
        for (int64_t j = 0; j < c->outputs; j++) {
            float drawn = c->output[at + j] + (c->real ? deviation[j] * c->noise[at + j] : c->noise[at + j]);
            if (isnan(drawn)) return 0;
            if (c->real) ((float *)c->action)[at + j] = drawn;
            if (j == 0 || drawn > most) most = drawn, best = j;
        }
        if (!c->real) ((int64_t *)c->action)[step * c->rows + row] = best;
    }
    return 1;
}

static void learn_from_reward(struct collector *c, int64_t step)
{
    struct statistics *s = &c->of_rewards;
    double *rewards = c->rewards + step * c->rows;
    for (int64_t row = 0; row < c->rows; row++) rewards[row] = c->reward[row] * c->scale;
    if (!s->mean) return;
    int64_t copies = c->rows / c->members;
    for (int64_t row = 0; row < c->rows; row++) c->returns[row] = c->returns[row] * c->gamma + rewards[row];
    count(s, c->members, copies, 1, c->returns);
    for (int64_t row = 0; row < c->rows; row++)
        rewards[row] = clip(rewards[row] / sqrt(s->variance[row / copies] + s->epsilon), s->clip);
}

static void observe(struct collector *c)
{
    struct statistics *s = &c->of_observations;
    int64_t numbers = c->rows * c->size;
    if (!s->mean) { memcpy(c->current, c->shown, numbers * sizeof(float)); return; }
    double values[numbers];
    for (int64_t j = 0; j < numbers; j++) values[j] = c->shown[j];
    count(s, c->members, c->rows / c->members, c->size, values);
    for (int64_t j = 0; j < numbers; j++) {
        int64_t at = j / (c->rows / c->members * c->size) * c->size + j % c->size;
        c->current[j] = clip((values[j] - s->mean[at]) / sqrt(s->variance[at] + s->epsilon), s->clip);
    }
}

/* Take at most so many steps, the first of which has this place in the rollout; return how many were taken. */
int64_t collect(struct collector *c, int64_t first, int64_t most)
{
    int64_t actions = c->real ? c->outputs * sizeof(float) : sizeof(int64_t);
    for (int64_t k = 0; k < most; k++) {
        int64_t step = first + k;
        c->run_network(c->network, c->rows / c->members, c->current, c->output + step * c->rows * c->outputs);
        if (!choose(c, step) || !c->take_step(c->task, (char *)c->action + step * c->rows * actions, 1)) return k;
        memcpy(c->observed + step * c->rows * c->size, c->current, c->rows * c->size * sizeof(float));
        learn_from_reward(c, step);
        observe(c);
    }
    return most;
}
