/* Steps of Gymnasium's classic control and of the nine rooms for several copies at once, with their shifts.

The order of operations is that of the environments, so that the results are equal to the last bit. A step with an
action that does not exist, or with a result that is not finite, is not taken. Compile without contraction and builtins. */

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { CARTPOLE, ACROBOT, PENDULUM, MOUNTAIN_CAR, ROOMS };
enum { IMPOSSIBLE, PLAIN, ENDING };  /* steps, in some of which an episode ends */
enum { RENUMBER_ACTION, MIRROR_INDEX, MIRROR_REAL, MULTIPLY, ADD, TAKE, RENUMBER_CELL, NEGATE };

static const double pi = 3.141592653589793, two = 2.0;

struct map { int64_t kind; const void *values, *ends; };  /* of actions, observations or rewards; a row for each copy */

struct rows {
    int64_t task, copies, numbers, actions;  /* numbers of an observation; discrete actions, or 0 if they are real */
    int64_t limit, maps, states;             /* steps of an episode; numbers of a state */
    const double *constants, *rewards;       /* rewards of rooms: (goals, cells) */
    const int64_t *neighbours;               /* of rooms: (cells, moves) */
    const float *bounds;                     /* of real actions, lowest and highest, or NULL */
    void *state, *next;                      /* (states, copies), as double or, of rooms, int64_t */
    int64_t *lengths;
    double *returns;
    void *moved;                             /* actions of the environments, (copies) */
    void *seen, *last;                       /* their observations: (copies, numbers) of float, or cells (copies) */
    float *shown, *before;                   /* those of the agent, (copies, numbers), and space for one of them */
    double *reward;                          /* of the agent, (copies) */
    uint8_t *terminated;                     /* (copies) */
    struct map map[8];
};

static int discrete(struct rows *r, const int64_t *actions)
{
    int64_t *moved = r->moved, n = r->copies;
    for (int64_t i = 0; i < n; i++) {
        if (actions[i] < 0 || actions[i] >= r->actions) return 0;
        moved[i] = actions[i];
    }
    for (int64_t k = r->maps - 1; k >= 0; k--) {  /* the last shift is the first to see an action */
        struct map *m = &r->map[k];
        for (int64_t i = 0; i < n; i++) {
            if (m->kind == RENUMBER_ACTION)
                moved[i] = ((const int64_t *)m->values)[i * r->actions + moved[i]];
            else if (m->kind == MIRROR_INDEX && ((const uint8_t *)m->values)[i])
                moved[i] = *(const int64_t *)m->ends - moved[i];
        }
    }
    return 1;
}

static void real(struct rows *r, const float *actions)
{
    float *moved = r->moved;
    for (int64_t i = 0; i < r->copies; i++) {
        moved[i] = actions[i];
        if (r->bounds) {
            if (moved[i] < r->bounds[0]) moved[i] = r->bounds[0];
            if (moved[i] > r->bounds[1]) moved[i] = r->bounds[1];
        }
    }
    for (int64_t k = r->maps - 1; k >= 0; k--) {  /* the last shift is the first to see an action */
        struct map *m = &r->map[k];
        for (int64_t i = 0; i < r->copies; i++)
            if (m->kind == MIRROR_REAL && ((const uint8_t *)m->values)[i])
                moved[i] = *(const float *)m->ends - moved[i];
    }
}

static int cartpole(struct rows *r, int64_t i)
{
    const double *c = r->constants, *s = r->state, force_mag = c[0], polemass_length = c[1], total_mass = c[2];
    double gravity = c[3], length = c[4], masspole = c[5], tau = c[6], x_threshold = c[7], theta_threshold = c[8];
    int64_t n = r->copies;
    double x = s[i], x_dot = s[n + i], theta = s[2 * n + i], theta_dot = s[3 * n + i], *next = r->next;
    double force = ((int64_t *)r->moved)[i] == 1 ? force_mag : -force_mag, cosine = cos(theta), sine = sin(theta);
    double push = (force + polemass_length * (theta_dot * theta_dot) * sine) / total_mass;
    double turn = (gravity * sine - cosine * push)
        / (length * (4.0 / 3.0 - masspole * (cosine * cosine) / total_mass));
    next[i] = x + tau * x_dot;
    next[n + i] = x_dot + tau * (push - polemass_length * turn * cosine / total_mass);
    next[2 * n + i] = theta + tau * theta_dot;
    next[3 * n + i] = theta_dot + tau * turn;
    r->reward[i] = 1.0;
    for (int64_t j = 0; j < 4; j++) ((float *)r->seen)[4 * i + j] = (float)next[j * n + i];
    return fabs(next[i]) > x_threshold || fabs(next[2 * n + i]) > theta_threshold;
}

static void change(const double *c, const double *s, double torque, double *out)
{
    double g = 9.8, m1 = c[0], m2 = c[1], l1 = c[2], c1 = c[3], c2 = c[4], inertia = c[5];
    double cosine2 = cos(s[1]), sine2 = sin(s[1]), square1 = pow(s[2], two), square2 = pow(s[3], two);
    double d1 = m1 * pow(c1, two) + m2 * (pow(l1, two) + pow(c2, two) + 2 * l1 * c2 * cosine2) + inertia + inertia;
    double d2 = m2 * (pow(c2, two) + l1 * c2 * cosine2) + inertia;
    double phi2 = m2 * c2 * g * cos(s[0] + s[1] - pi / 2.0);
    double phi1 = -m2 * l1 * c2 * square2 * sine2 - 2 * m2 * l1 * c2 * s[3] * s[2] * sine2
        + (m1 * c1 + m2 * l1) * g * cos(s[0] - pi / 2) + phi2;
    out[3] = (torque + d2 / d1 * phi1 - m2 * l1 * c2 * square1 * sine2 - phi2)
        / (m2 * pow(c2, two) + inertia - pow(d2, two) / d1);
    out[0] = s[2], out[1] = s[3], out[2] = -(d2 * out[3] + phi1) / d1;
}

static int acrobot(struct rows *r, int64_t i)
{
    const double *c = r->constants, *s = r->state;
    double step = c[6], half = step / 2.0, torque = c[9 + ((int64_t *)r->moved)[i]];
    double slope[4][4], at[4], now[4], *next = r->next;
    int64_t n = r->copies;
    for (int64_t k = 0; k < 4; k++) {
        double width = k == 3 ? step : half;
        for (int64_t j = 0; j < 4; j++) at[j] = k ? s[j * n + i] + width * slope[k - 1][j] : s[j * n + i];
        change(c, at, torque, slope[k]);
    }
    for (int64_t j = 0; j < 4; j++)
        now[j] = s[j * n + i] + step / 6.0 * (slope[0][j] + 2 * slope[1][j] + 2 * slope[2][j] + slope[3][j]);
    for (int64_t j = 0; j < 2; j++) {
        if (!isfinite(now[j])) {  /* the loops would not end */
            r->reward[i] = NAN;
            return 0;
        }
        while (now[j] > pi) now[j] -= pi - -pi;
        while (now[j] < -pi) now[j] += pi - -pi;
    }
    for (int64_t j = 2; j < 4; j++) {
        double most = c[5 + j];
        if (now[j] < -most) now[j] = -most;
        if (now[j] > most) now[j] = most;
    }
    double cosine1 = cos(now[0]), cosine2 = cos(now[1]);
    float seen[6] = {cosine1, sin(now[0]), cosine2, sin(now[1]), now[2], now[3]};
    memcpy((float *)r->seen + 6 * i, seen, sizeof seen);
    for (int64_t j = 0; j < 4; j++) next[j * n + i] = now[j];
    int reached = -cosine1 - cos(now[1] + now[0]) > 1.0;
    r->reward[i] = reached ? 0.0 : -1.0;
    return reached;
}

static int pendulum(struct rows *r, int64_t i)
{
    const double *c = r->constants, *s = r->state;
    double max_torque = c[0], max_speed = c[1], dt = c[2], g = c[3], m = c[4], l = c[5];
    int64_t n = r->copies;
    double angle = s[i], speed = s[n + i], *next = r->next;
    float torque = ((float *)r->moved)[i];
    if (torque < (float)-max_torque) torque = (float)-max_torque;
    if (torque > (float)max_torque) torque = (float)max_torque;
    double upright = fmod(angle + pi, 2 * pi);
    if (upright < 0) upright += 2 * pi;
    upright -= pi;
    double cost = pow(upright, two) + 0.1 * pow(speed, two) + (double)((float)0.001 * powf(torque, (float)two));
    double faster = speed + (3 * g / (2 * l) * sin(angle) + (double)((float)(3.0 / (m * pow(l, two))) * torque)) * dt;
    if (faster < -max_speed) faster = -max_speed;
    if (faster > max_speed) faster = max_speed;
    next[n + i] = faster;
    next[i] = angle + faster * dt;
    float seen[3] = {cos(next[i]), sin(next[i]), faster};
    memcpy((float *)r->seen + 3 * i, seen, sizeof seen);
    r->reward[i] = -cost;
    return 0;
}

static int mountain_car(struct rows *r, int64_t i)
{
    const double *c = r->constants, *s = r->state;
    double lowest = c[0], highest = c[1], max_speed = c[2], goal = c[3], goal_velocity = c[4], force = c[5];
    double gravity = c[6], *next = r->next;
    int64_t n = r->copies;
    double position = s[i], velocity = s[n + i];
    velocity += (double)(((int64_t *)r->moved)[i] - 1) * force + cos(3 * position) * -gravity;
    if (velocity < -max_speed) velocity = -max_speed;
    if (velocity > max_speed) velocity = max_speed;
    position += velocity;
    if (position < lowest) position = lowest;
    if (position > highest) position = highest;
    if (position == lowest && velocity < 0) velocity = 0;
    next[i] = position, next[n + i] = velocity;
    ((float *)r->seen)[2 * i] = (float)position, ((float *)r->seen)[2 * i + 1] = (float)velocity;
    r->reward[i] = -1.0;
    return position >= goal && velocity >= goal_velocity;
}

static int rooms(struct rows *r, int64_t i)
{
    const int64_t *s = r->state;
    int64_t n = r->copies, cell = s[i], goal = s[n + i], *next = r->next, *seen = r->seen;
    next[i] = seen[i] = r->neighbours[4 * cell + ((int64_t *)r->moved)[i]];
    next[n + i] = goal;
    r->reward[i] = r->rewards[goal * r->numbers + cell];
    return cell == goal;
}

static void show(struct rows *r, int64_t i)
{
    int64_t numbers = r->numbers;
    float *shown = r->shown + i * numbers;
    if (r->task == ROOMS) {
        int64_t cell = ((int64_t *)r->seen)[i];
        for (int64_t k = 0; k < r->maps; k++)
            if (r->map[k].kind == RENUMBER_CELL) cell = ((const int64_t *)r->map[k].values)[i * numbers + cell];
        memset(shown, 0, numbers * sizeof *shown);
        shown[cell] = 1;
        return;
    }
    memcpy(shown, (float *)r->seen + i * numbers, numbers * sizeof *shown);
    for (int64_t k = 0; k < r->maps; k++) {
        const float *value = (const float *)r->map[k].values + i * numbers;
        const int64_t *order = (const int64_t *)r->map[k].values + i * numbers;
        int64_t kind = r->map[k].kind;
        if (kind == TAKE) memcpy(r->before, shown, numbers * sizeof *shown);
        for (int64_t j = 0; j < numbers; j++) {
            if (kind == MULTIPLY) shown[j] *= value[j];
            else if (kind == ADD) shown[j] += value[j];
            else if (kind == TAKE) shown[j] = r->before[order[j]];
        }
    }
}

/* Compute the states, observations, rewards and ends of a step that is not taken; return its kind. */
int64_t try_step(struct rows *r, const void *actions)
{
    static int (*const tasks[])(struct rows *, int64_t) = {cartpole, acrobot, pendulum, mountain_car, rooms};
    int64_t kind = PLAIN;
    if (!r->actions) real(r, actions);
    else if (!discrete(r, actions)) return IMPOSSIBLE;
    for (int64_t i = 0; i < r->copies; i++) {
        r->terminated[i] = tasks[r->task](r, i);
        if (!isfinite(r->reward[i])) return IMPOSSIBLE;
        for (int64_t j = 0; r->task != ROOMS && j < r->numbers; j++)
            if (!isfinite(((float *)r->seen)[i * r->numbers + j])) return IMPOSSIBLE;
        if (r->terminated[i] || r->lengths[i] + 1 >= r->limit) kind = ENDING;
    }
    return kind;
}

/* Take a step if its kind is at most `most`, and return its kind, or IMPOSSIBLE if it is not taken. */
int64_t take_step(struct rows *r, const void *actions, int64_t most)
{
    int64_t n = r->copies, kind = try_step(r, actions);
    if (!kind || kind > most) return IMPOSSIBLE;
    memcpy(r->state, r->next, r->states * n * sizeof(double));
    memcpy(r->last, r->seen, n * (r->task == ROOMS ? sizeof(int64_t) : r->numbers * sizeof(float)));
    for (int64_t i = 0; i < n; i++) {
        for (int64_t k = 0; k < r->maps; k++)
            if (r->map[k].kind == NEGATE && ((const uint8_t *)r->map[k].values)[i]) r->reward[i] = -r->reward[i];
        show(r, i);
        r->returns[i] += r->reward[i];
        r->lengths[i]++;
    }
    return kind;
}
